"""Work is counted, never timed: the code points that go through the tokenizer, and the calls that are made."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from chonkie import RecursiveChunker, SentenceChunker

from kb_shared.chunking import ChunkerType, ChunkingConfig, PageSpan, chunk_text
from kb_shared.chunking.chunk import Span
from kb_shared.chunking.windows import split_in_windows
from kb_shared.text import tokens
from tests.counted_calls import calls_counted
from tests.unit.chunking.chunked import chunked
from tests.unit.chunking.corpora import scripts

SMALL, FACTOR = 20, 5
SCRIPTS = (
    "ascii",
    "cjk",
    "thai",
    "marks_only",
    "base64",
    "one_letter",
    "csv",
    "dots",
    "newlines",
    "islands_in_whitespace",
    "fences",
    "heading_marks",
    "deep_headings",
    "table",
    "table_under_a_header",
    "code",
    "headings_over_nothing",
    "words_of_every_length",
)
HARD_FOR_ALL = ("ascii", "thai", "one_letter", "newlines", "islands_in_whitespace")
CONFIG_SIZES = (80, 20)


@dataclass
class CountingEncoding:
    encoding: Any
    code_points: int = 0

    def encode_ordinary(self, text: str) -> list[int]:
        self.code_points += len(text)
        encoded: list[int] = self.encoding.encode_ordinary(text)
        return encoded


def work(text: str, chunker_type: ChunkerType, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    vocabulary = tokens._VOCABULARY
    counting = CountingEncoding(vocabulary.encoding)
    with monkeypatch.context() as patched:
        patched.setattr(tokens, "_VOCABULARY", replace(vocabulary, encoding=counting))
        with calls_counted() as calls:
            chunked(text, ChunkingConfig(chunker_type, *CONFIG_SIZES))
    return counting.code_points, calls[0]


@pytest.mark.parametrize(
    ("chunker_type", "script"),
    [(chunker_type, script) for chunker_type in ChunkerType for script in HARD_FOR_ALL]
    + [(ChunkerType.RECURSIVE, script) for script in sorted({*SCRIPTS} - {*HARD_FOR_ALL})],
)
def test_a_text_five_times_as_long_takes_five_times_the_work(
    script: str, chunker_type: ChunkerType, monkeypatch: pytest.MonkeyPatch
) -> None:
    code_points, calls = work(scripts(SMALL)[script], chunker_type, monkeypatch)
    more_code_points, more_calls = work(scripts(SMALL * FACTOR)[script], chunker_type, monkeypatch)
    # A little text goes through one window only, more of it through several that overlap: allow for that.
    assert more_code_points <= 1.6 * FACTOR * code_points
    assert more_calls <= 1.6 * FACTOR * calls + 2_000


def test_the_sentence_chunker_is_fed_in_windows_since_it_is_quadratic(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    chunk = SentenceChunker.chunk

    def watched(self: SentenceChunker, text: str) -> Any:
        seen.append(len(text))
        return chunk(self, text)

    monkeypatch.setattr(SentenceChunker, "chunk", watched)
    chunked("A sentence stands here. " * 20_000, ChunkingConfig(ChunkerType.SENTENCE, *CONFIG_SIZES))
    assert max(seen) < 40_000
    assert sum(seen) < 1.1 * 24 * 20_000


def test_no_text_stays_behind_in_a_cache_of_chonkie() -> None:
    RecursiveChunker._estimate_token_count.cache_clear()
    for chunker_type in ChunkerType:
        chunked("A tenant's secret. " * 200 + "x" * 5_000, ChunkingConfig(chunker_type, *CONFIG_SIZES))
    assert RecursiveChunker._estimate_token_count.cache_info().currsize == 0


def test_c9_a_text_of_many_headings_and_pages_takes_work_in_proportion_to_its_length() -> None:
    def calls_for(sections: int) -> int:
        text = "".join(f"{'#' * (n % 6 + 1)} Part {n}\n\nIt tells of a thing.\n\n" for n in range(sections))
        pages = [PageSpan(n, n * 30, n * 30 + 30) for n in range(len(text) // 30)]
        with calls_counted() as calls:
            chunk_text(text, ChunkingConfig(ChunkerType.RECURSIVE, *CONFIG_SIZES), pages=pages)
        return calls[0]

    assert calls_for(2_000) <= 1.3 * 5 * calls_for(400)


def test_a_splitter_never_sees_more_than_four_windows_at_once() -> None:
    seen: list[Span] = []

    def without_a_cut(window: Span) -> list[Span]:
        seen.append(window)
        return [window]

    spans = list(split_in_windows(Span(5, 10_000), without_a_cut, window=100))
    assert max(span.end - span.start for span in seen) == 400
    assert [spans[0].start, *(span.end for span in spans)] == [*range(5, 10_000, 400), 10_000]
