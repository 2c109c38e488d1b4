"""Which marks of citations stay in an answer, and what is code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_search.runs.marks import MarkStreamFilter, find_numbers, remove_unknown_marks

PIECES = st.lists(
    st.sampled_from(["[", "]", "1", "9", ",", " ", "\n", "a", "[1]", "[9]", " [9]"])
    | st.sampled_from(["`", "``", "```", "~~~", "\\", "&", "#91;", "&#93;", "lbrack;"]),
    max_size=14,
)


def is_known(number: int) -> bool:
    return number < 3


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("so [ 1 ] and [ 9 ]", "so [ 1 ] and"),
        (r"so \[1\] and \[9\]", r"so \[1\] and"),
        ("so &#91;9&#93;, &#x5B;9&rbrack;", "so,"),
        ("so [1,\n9]", "so [1]"),
        ("so [\u0669]", "so"),
        # What is left must not be another one, nor code.
        ("[[9]9] [4[9]2] [ [9][8]7]", "[[?]9] [4[?]2] [[?]7]"),
        ("`[9]` ``[9]``` [9]", "`[9]` ``[?]```"),
        # Not every program takes these for code.
        ("``` so [9]", "``` so"),
        ("``` so ``` [9]\nso [9]", "``` so ```\nso"),
        (r"\`so [9]\`", r"\`so\`"),
        ("  ```\n[9]", "  ```\n"),
        ("````\n```\n[9]\n````\n[9]", "````\n```\n[9]\n````\n"),
        ("~~~ a\n[9]\n~~~~ \n[9]", "~~~ a\n[9]\n~~~~ \n"),
        ("in 2024 [9].", "in 2024."),
    ],
)
def test_a_mark_of_what_was_never_found_is_not_shown_as_one(written: str, shown: str) -> None:
    assert remove_unknown_marks(written, is_known) == shown


@given(PIECES)
def test_pieces_come_to_the_same_as_the_whole_and_cite_only_what_is_known(pieces: list[str]) -> None:
    stream = MarkStreamFilter(is_known)
    shown = "".join([*(stream.feed(piece) for piece in pieces), stream.end()])
    assert shown == remove_unknown_marks("".join(pieces), is_known)
    assert all(map(is_known, find_numbers(shown)))


@pytest.mark.parametrize("text", ["So it is", "So [1]: `rows[0]` and so", "A list [1, 2], then"])
def test_text_that_can_not_become_a_mark_is_passed_on_at_once(text: str) -> None:
    stream = MarkStreamFilter(is_known)
    assert "".join(map(stream.feed, text)) == text
