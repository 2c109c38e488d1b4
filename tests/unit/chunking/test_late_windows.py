"""What around a chunk is embedded with it by the `late` chunker."""

from itertools import pairwise

from kb_shared.chunking import Chunk, ChunkerType, ChunkingConfig, chunk_text
from kb_shared.chunking.late import WINDOW_TOKENS
from kb_shared.embedding.late_text import LateText
from kb_shared.text.tokens import count_tokens

TEXT = "\n\n".join(
    f"# Chapter {chapter}\n\n" + " ".join(f"Sentence {number} of chapter {chapter}." for number in range(60))
    for chapter in range(20)
)
LATE = ChunkingConfig(ChunkerType.LATE, 100, 0)


def chunks_of(text: str) -> list[Chunk]:
    return chunk_text(text, LATE)


def windows_of(chunks: list[Chunk]) -> list[LateText]:
    return [LateText.read(chunk.embedded_text) for chunk in chunks]


def test_late_chunks_are_cut_as_recursive_ones_are() -> None:
    recursive = chunk_text(TEXT, ChunkingConfig(ChunkerType.RECURSIVE, 100, 0))
    assert [(chunk.start, chunk.end) for chunk in chunks_of(TEXT)] == [(chunk.start, chunk.end) for chunk in recursive]


def test_a_chunk_is_embedded_as_a_part_of_a_window_of_the_text() -> None:
    for chunk, window in zip(chunks_of(TEXT), windows_of(chunks_of(TEXT)), strict=True):
        assert window.window[window.start : window.end] == chunk.text
        assert window.window in TEXT
        assert chunk.context == ""


def test_a_window_holds_as_many_chunks_as_fit_and_none_twice() -> None:
    chunks = chunks_of(TEXT)
    distinct = list(dict.fromkeys(window.window for window in windows_of(chunks)))
    sizes = [count_tokens(window) for window in distinct]
    assert 1 < len(distinct) < len(chunks) / 5
    assert all(size <= WINDOW_TOKENS * 1.05 for size in sizes)
    assert all(size + next_size > WINDOW_TOKENS for size, next_size in pairwise(sizes))
    assert sum(len(window) for window in distinct) <= len(TEXT)


def test_a_chunk_has_another_hash_when_something_near_it_changed() -> None:
    before, after = chunks_of(TEXT), chunks_of(TEXT.replace("Sentence 50 of chapter 0.", "Sentence L of chapter 0."))
    assert before[0].text == after[0].text
    assert before[0].chunk_hash != after[0].chunk_hash
    # What is far away is another window's.
    assert before[-1].text == after[-1].text
    assert before[-1].chunk_hash == after[-1].chunk_hash


def test_one_chunk_is_its_own_window_and_a_blank_text_has_none() -> None:
    assert windows_of(chunks_of("One sentence.")) == [("One sentence.", 0, 13)]
    assert chunks_of(" \n ") == []


def test_a_query_that_begins_with_thousands_of_digits_is_a_piece_without_surroundings() -> None:
    text = "1" * 5_000 + ":1:x"
    assert LateText.read(text) == (text, 0, len(text))
