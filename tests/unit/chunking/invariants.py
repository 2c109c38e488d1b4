"""What must be true of the chunks of any text, whatever the chunker."""

import hashlib
from collections.abc import Sequence
from itertools import pairwise

from kb_shared.chunking import Chunk, ChunkerType, ChunkingConfig, count_tokens
from kb_shared.embedding.late_text import LateText

MAX_HEADING_LINE_TOKENS = 64


def assert_sound(text: str, config: ChunkingConfig, chunks: Sequence[Chunk]) -> None:
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))
    _assert_covered(text, chunks)
    for chunk in chunks:
        _assert_within_limits(chunk, config)
        assert chunk.chunk_hash == hashlib.sha256(chunk.embedded_text.encode()).hexdigest()
        _assert_embedded(chunk, config)
    _assert_context_is_what_came_before(text, chunks)


def repeats_table_header(chunk: Chunk) -> bool:
    return "|" in chunk.context and chunk.context.endswith("\n") and "-" in chunk.context.splitlines()[-1]


def _assert_covered(text: str, chunks: Sequence[Chunk]) -> None:
    position = 0
    for chunk in chunks:
        assert position <= chunk.start < chunk.end
        assert not text[position : chunk.start].strip(), "text between two chunks is lost"
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.strip() == chunk.text != ""
        position = chunk.end
    assert not text[position:].strip(), "text after the last chunk is lost"


def _assert_within_limits(chunk: Chunk, config: ChunkingConfig) -> None:
    assert chunk.token_count == count_tokens(chunk.text) <= config.chunk_size - config.chunk_overlap
    if not repeats_table_header(chunk):
        assert count_tokens(chunk.context) <= config.chunk_overlap + 1  # what joins it to the text may be one more
    assert count_tokens(chunk.context + chunk.text) <= config.chunk_size


def _assert_embedded(chunk: Chunk, config: ChunkingConfig) -> None:
    if config.chunker_type is ChunkerType.LATE:
        late = LateText.read(chunk.embedded_text)
        assert late.window[late.start : late.end] == chunk.text
        assert chunk.context == ""
        return
    assert chunk.embedded_text.endswith(chunk.context + chunk.text)
    assert count_tokens(chunk.embedded_text) <= config.chunk_size + MAX_HEADING_LINE_TOKENS


def _assert_context_is_what_came_before(text: str, chunks: Sequence[Chunk]) -> None:
    assert not chunks or chunks[0].context == ""
    for previous, chunk in pairwise(chunks):
        before = chunk.context.rstrip()
        assert previous.text.endswith(before) or (repeats_table_header(chunk) and before in text[: chunk.start])
