"""Figures as they are read, and texts in pieces."""

import re
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_console import figures
from kb_console.status_words import Tone
from kb_console.text_pieces import cut_at_chunks, mark_words
from kb_console.uploads import safe_name
from kb_contracts.api.search import Highlight

_SELECTED_CLASS = re.compile(r"(\.[\w.-]+)\s*[,{]")
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_thousands_have_thin_spaces_that_never_break() -> None:
    assert figures.number(1234567.5, 1) == "1\u202f234\u202f567.5"
    assert figures.size(12_345_678) == "12.3\u202fMB"
    assert figures.usd(0.0131) == "$0.0131"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "now"),
        (40, "40 s ago"),
        (-40, "in 40 s"),
        (600, "10 min ago"),
        (-90_000, "in 25 h"),
        (408e6, "13 years ago"),
        (49e6, "19 months ago"),
        (4e6, "46 days ago"),
    ],
)
def test_times_are_told_from_now(seconds: float, words: str) -> None:
    assert figures.distance(NOW - timedelta(seconds=seconds), NOW) == words


def test_the_tone_of_a_badge_is_the_name_of_nothing_else_in_the_stylesheet() -> None:
    stylesheet = files("kb_console").joinpath("static/console.css").read_text(encoding="utf-8")
    selected = set(_SELECTED_CLASS.findall(stylesheet))
    tones = get_args(Tone)
    assert ".badge.good" in selected
    # A class of the same name that hides what waits would hide every badge of this tone.
    assert not selected & {f".{tone}" for tone in tones}


@given(st.text(max_size=60), st.lists(st.tuples(st.integers(0, 70), st.integers(0, 20)), max_size=8))
def test_pieces_of_a_text_are_the_text_and_know_their_chunks(text: str, given_spans: list[tuple[int, int]]) -> None:
    spans = [(number, start, start + size) for number, (start, size) in enumerate(sorted(given_spans))]
    pieces = cut_at_chunks(text, spans)
    assert "".join(piece.text for piece in pieces) == text
    at = 0
    for piece in pieces:
        end = at + len(piece.text)
        overlapping = [number for number, start, stop in spans if start <= at and end <= stop]
        assert list(piece.chunks) == overlapping
        at = end


def test_words_of_a_query_are_marked_where_they_are() -> None:
    pieces = mark_words("30 days of leave", [Highlight(start=3, end=7), Highlight(start=11, end=16)])
    assert [(piece.text, piece.is_marked) for piece in pieces] == [
        ("30 ", False), ("days", True), (" of ", False), ("leave", True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("a/b\\c.PDF", "c.PDF"),
        ("../../etc/passwd", "passwd"),
        ("x\x00y\n.txt", "xy.txt"),
        ("", "document"),
        ("n" * 500 + ".pdf", "n" * 200 + ".pdf"),
        (".hidden", ".hidden"),
    ],
)
def test_names_of_files_are_safe_whatever_a_browser_sends(given_name: str, name: str) -> None:
    assert safe_name(given_name) == name
