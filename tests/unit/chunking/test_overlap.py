import pytest

from kb_shared.chunking import ChunkerType, ChunkingConfig, count_tokens
from tests.unit.chunking.chunked import chunked

WITH_CONTEXT = [chunker for chunker in ChunkerType if chunker is not ChunkerType.LATE]
TEXT = "The harbour lay still under a low grey sky while gulls turned above the empty quay. " * 40


@pytest.mark.parametrize("chunker_type", WITH_CONTEXT)
def test_context_is_the_end_of_the_chunk_before_and_starts_at_a_word(chunker_type: ChunkerType) -> None:
    previous, chunk, *_ = chunked(TEXT, ChunkingConfig(chunker_type, 100, 30))
    assert previous.text.endswith(chunk.context.rstrip())
    assert previous.text.removesuffix(chunk.context.rstrip()).endswith(" ")
    assert 20 <= count_tokens(chunk.context) <= 31


@pytest.mark.parametrize("chunker_type", WITH_CONTEXT)
def test_context_parts_no_word_and_no_letter_from_its_mark(chunker_type: ChunkerType) -> None:
    config = ChunkingConfig(chunker_type, 100, 30)
    for chunk in chunked("pneumonoultramicroscopic " * 200, config)[1:]:
        assert chunk.context.startswith("pneumonoultramicroscopic")
    for chunk in chunked("x\u0301\u0302\u0303" * 400, config)[1:]:
        assert chunk.context.startswith("x")


def test_context_is_joined_as_the_text_was() -> None:
    config = ChunkingConfig(ChunkerType.RECURSIVE, 40, 16)
    assert chunked("A line of words that is long enough to be one chunk. \n\n" * 9, config)[1].context.endswith(".\n")
    assert chunked("漢字仮名交文字列" * 30, config)[1].context[-1] in "漢字仮名交文字列"


def test_a_desert_of_whitespace_is_not_put_into_the_context() -> None:
    text = ("one two three four five six seven eight nine ten " * 3 + "\n" * 5_000) * 3
    assert all(len(chunk.context) < 100 for chunk in chunked(text, ChunkingConfig(ChunkerType.RECURSIVE, 48, 16)))


def test_context_does_not_count_as_the_text_of_the_chunk() -> None:
    with_overlap = chunked(TEXT, ChunkingConfig(ChunkerType.WORD, 130, 30))
    without = chunked(TEXT, ChunkingConfig(ChunkerType.WORD, 100, 0))
    assert [chunk.text for chunk in with_overlap] == [chunk.text for chunk in without]
    assert {chunk.context for chunk in without} == {""}


def test_the_hash_covers_heading_context_and_text() -> None:
    config = ChunkingConfig(ChunkerType.RECURSIVE, 60, 20)
    plain = chunked(TEXT, config)[2]
    under_heading = chunked("# Harbours\n\n" + "Filler. " * 40 + TEXT, config)[-1]
    assert plain.embedded_text == plain.context + plain.text
    assert under_heading.embedded_text == f"Harbours\n{under_heading.context}{under_heading.text}"
    assert plain.chunk_hash != chunked(TEXT, ChunkingConfig(ChunkerType.RECURSIVE, 40, 0))[2].chunk_hash
