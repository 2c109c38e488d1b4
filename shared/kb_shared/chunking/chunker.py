"""The story of chunking: split, then say of each piece what comes before it, where it stands and what it is."""

from collections.abc import Callable, Generator, Iterable, Sequence

from kb_shared.chunking.chunk import Chunk, ChunkerType, ChunkingConfig, PageSpan, SizedSpan
from kb_shared.chunking.counted_text import CountedText
from kb_shared.chunking.late import surroundings
from kb_shared.chunking.outline import Outline
from kb_shared.chunking.overlap import overlap_context
from kb_shared.chunking.pages import PageIndex
from kb_shared.chunking.semantic import VectorsWanted
from kb_shared.chunking.splitters import split
from kb_shared.embedding.late_text import LateText
from kb_shared.mongo.vector import Vector
from kb_shared.text.text_normalization import for_model
from kb_shared.text.tokens import count_tokens

ChunkingSteps = Generator[VectorsWanted, Sequence[Vector], list[Chunk]]
"""Steps that yield texts to embed, receive their vectors, and return the chunks."""


def chunk_text(
    text: str,
    config: ChunkingConfig,
    *,
    pages: Sequence[PageSpan] = (),
    embed: Callable[[Sequence[str]], Sequence[Vector]] | None = None,
) -> list[Chunk]:
    """Do all of `chunking_steps` at once; `embed` is needed where the chunker groups by meaning."""
    steps = chunking_steps(text, config, pages=pages)
    outcome = advance(steps)
    while isinstance(outcome, VectorsWanted):
        if embed is None:
            raise TypeError(f"the {config.chunker_type} chunker needs vectors")
        outcome = advance(steps, embed(outcome.texts))
    return outcome


def advance(steps: ChunkingSteps, vectors: Sequence[Vector] | None = None) -> VectorsWanted | list[Chunk]:
    """Go on with `steps`, with the vectors that were asked for, to the next question or to the chunks."""
    try:
        return next(steps) if vectors is None else steps.send(vectors)
    except StopIteration as end:
        chunks: list[Chunk] = end.value
        return chunks


def chunking_steps(
    text: str,
    config: ChunkingConfig,
    *,
    pages: Sequence[PageSpan] = (),
    max_chunks: int | None = None,
    embedding_text: str | None = None,
) -> ChunkingSteps:
    """Return the chunks of `text` in order; none for a blank one. The same input gives the same chunks.

    The chunks cover the text but for whitespace. A chunk's own text has at most `chunk_size - chunk_overlap` tokens,
    with its context at most `chunk_size`; the line with its heading path adds at most 64.
    Each step blocks for seconds on megabytes: run it off the event loop.

    Args:
        text: of the document.
        config: of the knowledge base.
        pages: where they stand in the text.
        max_chunks: no vectors are asked for where the document has more chunks than this; all are returned.
        embedding_text: what is embedded in place of `text`, which is one chunk then, of any length.

    Raises:
        ValueError: `text` holds a lone surrogate, which no encoding can carry.
    """
    _refuse_lone_surrogates(text)
    counted, outline, page_index = CountedText(text), Outline(text), PageIndex(pages)
    if embedding_text is not None:
        return [_whole(text, outline, page_index, config=config, embedding_text=embedding_text)] if text.strip() else []
    spans: Iterable[SizedSpan] = yield from split(
        counted,
        outline,
        config,
        begins=page_index.begin_chunks(counted, outline, config.own_tokens),
        max_chunks=max_chunks,
    )
    chunks: list[Chunk] = []
    previous: SizedSpan | None = None
    for span, around in _with_surroundings(text, spans, config):
        page_start, page_end = page_index.find(span.start, span.end)
        chunks.append(
            Chunk(
                chunk_index=len(chunks),
                text=text[span.start : span.end],
                start=span.start,
                end=span.end,
                token_count=span.token_count,
                context=_context(counted, span, previous=previous, config=config),
                heading_path=outline.heading_path(span.start),
                page_start=page_start,
                page_end=page_end,
                chunk_type=outline.chunk_type(span.start, span.end),
                surroundings=around,
                text_normalization=config.text_normalization,
            )
        )
        previous = span
    return chunks


def _whole(text: str, outline: Outline, page_index: PageIndex, *, config: ChunkingConfig, embedding_text: str) -> Chunk:
    """Return the one chunk of a text that another one is embedded for."""
    own = text.strip()
    start = text.index(own)
    end = start + len(own)
    page_start, page_end = page_index.find(start, end)
    around = None
    if config.chunker_type is ChunkerType.LATE:
        normalized = for_model(embedding_text, config.text_normalization)
        around = LateText(normalized, 0, len(normalized))
    return Chunk(
        chunk_index=0,
        text=own,
        start=start,
        end=end,
        token_count=count_tokens(own),
        context="",
        heading_path=outline.heading_path(start),
        page_start=page_start,
        page_end=page_end,
        chunk_type=outline.chunk_type(start, end),
        surroundings=around,
        text_normalization=config.text_normalization,
        embedding_text=embedding_text,
    )


def _with_surroundings(
    text: str, spans: Iterable[SizedSpan], config: ChunkingConfig
) -> Iterable[tuple[SizedSpan, LateText | None]]:
    if config.chunker_type is not ChunkerType.LATE:
        return ((span, None) for span in spans)
    spans = list(spans)
    return zip(spans, surroundings(text, spans, text_normalization=config.text_normalization), strict=True)


def _context(counted: CountedText, span: SizedSpan, *, previous: SizedSpan | None, config: ChunkingConfig) -> str:
    if config.chunker_type is ChunkerType.LATE:
        return ""
    if span.table_header or previous is None:
        return span.table_header
    return overlap_context(counted, span, previous=previous, config=config)


def _refuse_lone_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        offset = error.start
    else:
        return
    # Raised here, not above: the UnicodeEncodeError holds the whole text and would travel along as the context.
    raise ValueError(f"text has a lone surrogate at offset {offset}")
