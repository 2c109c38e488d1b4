from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.chunking import Chunk, ChunkerType, ChunkingConfig, PageSpan, chunk_text, count_tokens, lines
from kb_shared.chunking.counted_text import CountedText
from kb_shared.chunking.outline import Outline
from kb_shared.chunking.pages import PageIndex
from tests.unit.chunking.corpora import scripts

FILLER = "Some words stand here to fill the room. " * 5
CONFIG = ChunkingConfig(ChunkerType.RECURSIVE, 48, 0)


def path_of(needle: str, text: str) -> tuple[str, ...]:
    return Outline(text).heading_path(text.index(needle))


def test_a_chunk_stands_under_the_headings_above_it() -> None:
    text = f"# A\n\n{FILLER}\n\n## B\n\n{FILLER}\n\n# C\n\n{FILLER} last"
    chunks = chunk_text(text, CONFIG)
    paths = [chunk.heading_path for chunk in chunks]
    assert paths == sorted(paths)
    assert set(paths) == {("A",), ("A", "B"), ("C",)}
    assert [chunk.heading_path for chunk in chunks if chunk.text.startswith("## B")] == [("A", "B")]
    assert chunks[-1].embedded_text.startswith("C\n")


def test_a_heading_closes_those_of_its_level_and_deeper() -> None:
    text = "# A\n### Deep\n## B ##\nhere\n# C\nthere"
    assert path_of("here", text) == ("A", "B")
    assert path_of("there", text) == ("C",)


def test_a_comment_in_a_code_block_is_no_heading() -> None:
    assert path_of("after", "# A\n```sh\n# comment\n```\nafter") == ("A",)


def test_a_stray_fence_does_not_swallow_the_headings_below_it() -> None:
    assert path_of("after", "# A\n```\n# B\nafter") == ("B",)


@pytest.mark.parametrize(
    "line", ["#hashtag", "####### seven", "    # indented code", "#", "## ##", "text # not at start"]
)
def test_a_line_that_only_looks_like_a_heading_is_none(line: str) -> None:
    assert path_of("after", f"{line}\nafter") == ()


@pytest.mark.parametrize("window", [7, 40, 333])
def test_headings_code_and_tables_are_found_wherever_a_window_ends(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = scripts(repeats=9)["markdown"]
    whole = Outline(text)
    assert (len(whole.headings), len(whole.code), len(whole.tables)) == (36, 9, 9)
    monkeypatch.setattr(lines, "_WINDOW_CODE_POINTS", window)
    in_windows = Outline(text)
    assert [heading.start for heading in in_windows.headings] == [heading.start for heading in whole.headings]
    assert (in_windows.code, in_windows.tables) == (whole.code, whole.tables)


def test_windows_line_ends_do_not_end_up_in_a_title() -> None:
    assert path_of("after", "# A \r\n\r\nafter") == ("A",)


def test_a_heading_path_is_at_most_64_tokens_and_leaves_outer_titles_out_first() -> None:
    outer, inner = "outer title words " * 20, "inner title words " * 5
    path = path_of("after", f"# {outer}\n## {inner}\nafter")
    assert path == (inner.strip(),)
    (alone,) = path_of("after", f"# {outer}\nafter")
    assert outer.startswith(alone)
    assert 50 < count_tokens(alone) < 64


@pytest.mark.parametrize(
    ("text", "chunk_type"),
    [
        ("Words and\n# a heading", "text"),
        ("# A\n\n## B", "heading"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "table"),
        ("```python\nprint('hi')\n```", "code"),
        ("| a single line", "text"),
    ],
)
def test_the_type_of_a_chunk_says_what_it_is_when_it_is_nothing_else(text: str, chunk_type: str) -> None:
    (chunk,) = chunk_text(text, CONFIG)
    assert chunk.chunk_type == chunk_type


def test_a_piece_from_the_middle_of_a_code_block_is_code() -> None:
    chunks = chunk_text("```python\n" + "value = compute(value)\n" * 100 + "```\n", CONFIG)
    assert len(chunks) > 5
    assert {chunk.chunk_type for chunk in chunks} == {"code"}


def pages_of(chunk: Chunk) -> tuple[int | None, int | None]:
    return chunk.page_start, chunk.page_end


def test_a_chunk_names_the_first_and_last_page_it_touches() -> None:
    page_texts = [f"Page {n}. {FILLER}" for n in range(1, 5)]
    text = "".join(page_texts)
    ends = [sum(map(len, page_texts[: n + 1])) for n in range(4)]
    pages = [PageSpan(n + 1, ends[n] - len(page_texts[n]), ends[n]) for n in range(4)]
    for chunk in chunk_text(text, CONFIG, pages=pages):
        touched = [page.page for page in pages if page.start < chunk.end and chunk.start < page.end]
        assert pages_of(chunk) == (touched[0], touched[-1])


def test_a_chunk_outside_of_all_pages_has_none() -> None:
    assert PageIndex([]).find(0, 5) == (None, None)
    assert PageIndex([PageSpan(1, 0, 5), PageSpan(2, 9, 12)]).find(5, 9) == (None, None)
    assert PageIndex([PageSpan(1, 0, 5), PageSpan(2, 9, 12)]).find(4, 10) == (1, 2)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12))),
    st.integers(0, 50),
    st.integers(1, 20),
)
def test_pages_are_found_whatever_their_order(raw: list[tuple[int, int]], start: int, length: int) -> None:
    boundaries = sorted({0, *(offset for offset, _ in raw)})
    pages = [PageSpan(n, a, b) for n, (a, b) in enumerate(pairwise(boundaries))]
    touched = [page.page for page in pages if page.start < start + length and start < page.end]
    expected = (touched[0], touched[-1]) if touched else (None, None)
    assert PageIndex(pages[::-1]).find(start, start + length) == expected


def with_pages(*texts: str, between: str = "\n\n") -> tuple[str, list[PageSpan]]:
    spans, at = [], 0
    for number, text in enumerate(texts, 1):
        spans.append(PageSpan(number, at, at + len(text)))
        at += len(text) + len(between)
    return between.join(texts), spans


SUBJECTS = [
    f"The {name} is checked each year, and a mark on its cover says when that was." for name in ("pump", "seal", "hose")
]


@pytest.mark.parametrize(
    "chunker_type", [ChunkerType.RECURSIVE, ChunkerType.SENTENCE, ChunkerType.TOKEN, ChunkerType.WORD]
)
def test_short_pages_are_a_chunk_each(chunker_type: ChunkerType) -> None:
    text, pages = with_pages(*SUBJECTS)
    chunks = chunk_text(text, ChunkingConfig(chunker_type, 512, 0), pages=pages)
    assert [(chunk.text, *pages_of(chunk)) for chunk in chunks] == [(each, n, n) for n, each in enumerate(SUBJECTS, 1)]


@pytest.mark.parametrize(
    "pages",
    [
        [
            "The pump is checked in the spring of each year by the owner, or by",
            "whom the owner names, and a mark says when that was, and who.",
        ],
        [f"{SUBJECTS[0]}\n# Seals", SUBJECTS[1]],
        ["Manual of the pump", SUBJECTS[0]],
        [f"```\n{SUBJECTS[0]}", f"{SUBJECTS[1]}\n```"],
    ],
)
def test_a_page_that_goes_on_is_in_one_chunk_with_the_one_before_it(pages: list[str]) -> None:
    text, spans = with_pages(*pages)
    (chunk,) = chunk_text(text, ChunkingConfig(ChunkerType.RECURSIVE, 512, 0), pages=spans)
    assert pages_of(chunk) == (1, 2)


def test_pages_of_a_book_which_are_full_end_no_chunk() -> None:
    text, pages = with_pages(*(FILLER.strip().replace(". ", ".\n\n") for _ in range(6)))
    config = ChunkingConfig(ChunkerType.RECURSIVE, 80, 0)
    spans = [[(chunk.start, chunk.end) for chunk in chunk_text(text, config, pages=each)] for each in (pages, [])]
    assert spans[0] == spans[1]


@given(st.lists(st.text("ab .\n", min_size=1, max_size=90), min_size=1, max_size=6), st.sampled_from(["", " ", "\n\n"]))
def test_no_chunk_goes_over_the_begin_of_a_page_that_begins_one(texts: list[str], between: str) -> None:
    text, pages = with_pages(*texts, between=between)
    begins = PageIndex(pages).begin_chunks(CountedText(text), Outline(text), CONFIG.own_tokens)
    assert begins == sorted(set(begins))
    for chunk in chunk_text(text, CONFIG, pages=pages):
        assert not any(chunk.start < begin < chunk.end for begin in begins)
