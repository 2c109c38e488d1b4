"""The `recursive` chunker: sections, paragraphs, tables and code stay whole where they fit."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

from kb_shared.chunking.chonkie_splitters import split_recursively
from kb_shared.chunking.chunk import MIN_OWN_TOKENS, ChunkingConfig, SizedSpan, Span
from kb_shared.chunking.counted_text import CountedText
from kb_shared.chunking.layout import LongBlock, layout_of
from kb_shared.chunking.merging import merge_small
from kb_shared.chunking.outline import Outline
from kb_shared.chunking.splitting import Splitter, as_it_is, cut, split_within
from kb_shared.chunking.tables import Table
from kb_shared.chunking.token_splitters import split_at_words
from kb_shared.text.tokens import count_tokens


def split_markdown(
    counted: CountedText, outline: Outline, config: ChunkingConfig, *, begins: Sequence[int] = ()
) -> Iterator[SizedSpan]:
    """Yield the chunks' spans: in order, without whitespace at either side, none blank, none over the limit.

    A table or a code block that does not fit is cut by itself, at its rows or lines; chonkie cuts the rest,
    of which a chunk begins at each of `begins`.
    """
    layout = layout_of(counted, outline, config.own_tokens)
    flow = partial(split_recursively, seen=layout.seen)
    code = partial(split_recursively, headings=False)
    position = 0
    for block in layout.long_blocks:
        for part in cut(Span(position, block.start), begins):
            yield from _split_and_merge(counted, part, outline=outline, config=config, splitter=flow)
        if block.table is not None:
            yield from _split_table(counted, block, table=block.table, config=config)
        else:
            yield from _split_and_merge(
                counted, Span(block.start, block.end), outline=outline, config=config, splitter=code
            )
        position = block.end
    for part in cut(Span(position, len(counted.text)), begins):
        yield from _split_and_merge(counted, part, outline=outline, config=config, splitter=flow)


def _split_and_merge(
    counted: CountedText, part: Span, *, outline: Outline, config: ChunkingConfig, splitter: Splitter
) -> Iterator[SizedSpan]:
    spans = split_within(counted, part, limit=config.own_tokens, splitters=(splitter, split_at_words))
    return merge_small(counted, spans, config.own_tokens, is_heading=outline.is_heading)


def _split_table(
    counted: CountedText, block: LongBlock, *, table: Table, config: ChunkingConfig
) -> Iterator[SizedSpan]:
    header = _repeatable_header(counted.text, table, config)
    limit = min(config.own_tokens, config.chunk_size - count_tokens(header))
    pieces = chain([Span(block.start, table.body)], table.rows(counted.text))
    for rows in _packed(counted, pieces, limit):
        for span in split_within(counted, rows, limit=limit, splitters=(as_it_is, split_at_words)):
            yield span._replace(table_header=header) if span.start >= table.body else span


def _repeatable_header(text: str, table: Table, config: ChunkingConfig) -> str:
    """Return the header rows with a line feed, or "" where they leave too little room for rows."""
    header = text[table.start : table.body].strip()
    if not header:
        return ""
    # A token ends where a line begins, so the tokens of header and rows add up.
    allowance = config.chunk_size - count_tokens(header + "\n")
    return header + "\n" if allowance >= max(MIN_OWN_TOKENS, config.chunk_size // 2) else ""


def _packed(counted: CountedText, rows: Iterable[Span], limit: int) -> Iterator[Span]:
    """Yield runs of `rows` with as many as fit `limit`; a row alone may be over it."""
    run: Span | None = None
    for row in rows:
        if run is not None and counted.between(run.start, row.end) > limit:
            yield run
            run = None
        run = Span(run.start if run else row.start, row.end)
    if run is not None:
        yield run
