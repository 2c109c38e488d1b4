"""The splitter of each chunker."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from kb_shared.chunking.chonkie_splitters import split_at_sentences, split_recursively
from kb_shared.chunking.chunk import ChunkerType, ChunkingConfig, SizedSpan, Span
from kb_shared.chunking.counted_text import CountedText
from kb_shared.chunking.markdown import split_markdown
from kb_shared.chunking.merging import merge_small
from kb_shared.chunking.outline import Outline
from kb_shared.chunking.semantic import VectorsWanted, split_by_meaning
from kb_shared.chunking.splitting import cut, split_within
from kb_shared.chunking.token_splitters import split_at_tokens, split_at_words
from kb_shared.mongo.vector import Vector

_BY_MEANING: Final = frozenset({ChunkerType.SEMANTIC, ChunkerType.SDPM})


def split(
    counted: CountedText, outline: Outline, config: ChunkingConfig, *, begins: Sequence[int], max_chunks: int | None
) -> Generator[VectorsWanted, Sequence[Vector], Iterable[SizedSpan]]:
    """Return the chunks' spans: in order, without whitespace at either side, none blank, none over the limit.

    A chunk begins at each of `begins`, unless chunks are grouped by meaning, which is what tells subjects apart then.
    Vectors are asked for only where the result has at most `max_chunks`. So a document that would have more is known
    before anything is paid for it.
    """
    if config.chunker_type not in _BY_MEANING:
        return _split(counted, outline, config, begins=begins)
    # As many sentences in a chunk as fit: no grouping makes fewer.
    packed = list(_split_at_sentences(counted, outline, config, begins=()))
    if max_chunks is not None and len(packed) > max_chunks:
        return packed
    grouped = yield from split_by_meaning(counted, config)
    return packed if max_chunks is not None and len(grouped) > max_chunks else grouped


def _split(
    counted: CountedText, outline: Outline, config: ChunkingConfig, *, begins: Sequence[int]
) -> Iterator[SizedSpan]:
    parts, limit = cut(Span(0, len(counted.text)), begins), config.own_tokens
    match config.chunker_type:
        case ChunkerType.RECURSIVE | ChunkerType.LATE:
            return split_markdown(counted, outline, config, begins=begins)
        case ChunkerType.TOKEN | ChunkerType.WORD:
            splitter = split_at_tokens if config.chunker_type is ChunkerType.TOKEN else split_at_words
            return chain.from_iterable(
                split_within(counted, part, limit=limit, splitters=(splitter,)) for part in parts
            )
    return _split_at_sentences(counted, outline, config, begins=begins)


def _split_at_sentences(
    counted: CountedText, outline: Outline, config: ChunkingConfig, *, begins: Sequence[int]
) -> Iterator[SizedSpan]:
    splitters = (split_at_sentences, split_recursively, split_at_words)
    for part in cut(Span(0, len(counted.text)), begins):
        spans = split_within(counted, part, limit=config.own_tokens, splitters=splitters)
        # What comes from one splitter is packed already; a finer one leaves the ends of what it cut.
        yield from merge_small(counted, spans, config.own_tokens, is_heading=outline.is_heading)
