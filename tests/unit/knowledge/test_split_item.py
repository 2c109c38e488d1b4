from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_knowledge.sources.source_items import MAX_TITLE_CHARACTERS, SourceItem
from kb_knowledge.sources.split_item import split_item

LONGEST = 4_000


def section(number: int, *, level: int = 2) -> str:
    words = Random(number).choices(["valve", "pump", "seal", "rotor", "flange", "gasket"], k=60)
    return f"{'#' * level} Section {number}\n\n{' '.join(words)}."


def item(text: str, *, title: str = "Manual") -> SourceItem:
    return SourceItem("https://example.com/manual", title, text, "https://example.com/manual")


def parts_of(text: str) -> list[SourceItem]:
    return list(split_item(item(text), longest=LONGEST))


def test_a_short_item_is_one_part() -> None:
    assert split_item(item("x" * LONGEST), longest=LONGEST) == (item("x" * LONGEST),)


def test_parts_begin_at_headings_and_have_the_whole_text() -> None:
    text = "\n\n".join(section(number) for number in range(60))
    parts = parts_of(text)
    assert len(parts) > 3
    assert "\n\n".join(part.text for part in parts) == text
    assert all(part.text.startswith("## Section") and len(part.text) <= LONGEST for part in parts)
    assert len({part.key for part in parts}) == len(parts)
    assert {part.url for part in parts} == {"https://example.com/manual"}
    assert [part.title for part in parts] == [
        "Manual (part 1)",
        *(f"Manual (part: {part.text.splitlines()[0].removeprefix('## ')})" for part in parts[1:]),
    ]


def test_chapters_are_kept_together_before_sections() -> None:
    chapters = ["\n\n".join([f"# Chapter {n}", *(section(10 * n + m) for m in range(4))]) for n in range(8)]
    assert all(part.text.startswith("# Chapter") for part in parts_of("\n\n".join(chapters)))


@pytest.mark.parametrize("place", [0, 20, 40, 59])
def test_a_change_of_a_section_changes_its_part_alone(place: int) -> None:
    sections = [section(number) for number in range(60)]
    before = {part.key: part.digest for part in parts_of("\n\n".join(sections))}
    sections[place] += "\n\nNew: the seal is changed each spring."
    after = {part.key: part.digest for part in parts_of("\n\n".join(sections))}
    assert len(before.items() ^ after.items()) == 2
    assert before.keys() == after.keys()


@pytest.mark.parametrize("place", [0, 700, 1_500, 2_000])
def test_a_new_section_changes_the_part_that_it_is_in(place: int) -> None:
    sections = [section(number) for number in range(2_000)]
    before = {part.key: part.digest for part in split_item(item("\n\n".join(sections)))}
    sections.insert(place, section(9_999))
    after = {part.key: part.digest for part in split_item(item("\n\n".join(sections)))}
    assert len(before) > 4
    assert len(before.items() - after.items()) <= 2


def test_lines_of_code_are_no_headings() -> None:
    code = "\n".join(["```", *(f"# step {n}" for n in range(150)), "```"])
    parts = parts_of("\n\n".join([section(1), code, *(section(n) for n in range(2, 9))]))
    assert len(parts) == 2
    assert parts[1].text.startswith("## Section")


def test_equal_headings_have_different_keys() -> None:
    parts = parts_of("\n\n".join(f"## Notes\n\n{'word ' * 500}" for _ in range(6)))
    assert len({part.key for part in parts}) == len(parts) > 3


def test_titles_stay_within_their_limit() -> None:
    text = "\n\n".join(f"## {'long ' * 60}\n\n{'word ' * 400}" for _ in range(6))
    parts = split_item(item(text, title="T" * 300), longest=LONGEST)
    assert all(len(part.title) <= MAX_TITLE_CHARACTERS for part in parts)
    assert parts[1].title.startswith("TTT")
    assert "(part: long" in parts[1].title


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["# a", "## b", "word " * 40, "x" * 300, "", "```", "é" * 50]), max_size=60))
def test_any_text_is_split_without_losing_a_word(lines: list[str]) -> None:
    text = "\n".join(lines)
    parts = split_item(item(text), longest=500)
    assert "".join("".join(part.text for part in parts).split()) == "".join(text.split())
    assert all(len(part.text) <= 500 for part in parts)
    assert len({part.key for part in parts}) == len(parts)
