"""Tables fit the terminal, lose no id, and say what they leave out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kb_client.command_line.answer_display import WrappedLines
from kb_client.command_line.tables import fit_columns, print_table
from tests.unit.client.command_line.answering_api import Terminal

ID = "66b1f0c2a7d94e0012345678"
COLUMNS = ("name", "id", "status", "documents", "passages", "tags")
LONG = "Handbook of the people who write very long names for knowledge bases and then some more"


def open_terminal(monkeypatch: pytest.MonkeyPatch, *, width: int) -> Terminal:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("sys.stdout", terminal := Terminal())
    return terminal


def printed(terminal: Terminal) -> list[str]:
    return re.sub("\x1b\\[[0-9;]*m", "", terminal.getvalue()).splitlines()


@pytest.mark.parametrize(
    "name",
    ["hr", LONG, "従業員のための非常に長い名前を持つナレッジベースの手引き書", "🙂" * 60],
    ids=["short", "long", "wide", "emoji"],
)
@pytest.mark.parametrize(("width", "left_out"), [(60, "passages, tags"), (80, "tags"), (170, None)])
def test_columns_at_the_right_are_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, name: str, width: int, left_out: str | None
) -> None:
    terminal = open_terminal(monkeypatch, width=width)
    row = (name, ID, "active", 1234, 567890, ["a-tag-of-people", "another-tag-of-people"])
    print_table(COLUMNS, [row], whole=("id",))
    lines = printed(terminal)
    assert max(map(cell_len, lines)) <= width
    assert ID in lines[1]
    assert "active" in lines[1]
    if name == LONG:
        said = [line for line in lines if line.startswith("no room for: ")]
        assert said == ([f"no room for: {left_out} (--json shows all)"] if left_out else [])


def test_one_long_name_takes_nothing_from_the_other_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch, width=100)
    print_table(COLUMNS, [(LONG * 3, ID, "indexing", 1234, 567890, ["a-tag"])], whole=("id",))
    header, row, *_ = printed(terminal)
    assert header.split() == list(COLUMNS)
    assert row.split()[-5:] == [ID, "indexing", "1,234", "567,890", "a-tag"]
    assert "…" in row


def test_ids_that_are_wider_than_the_terminal_are_printed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch, width=40)
    print_table(("name", "id", "state"), [("a", "x" * 90, "indexed")], whole=("id",))
    assert "x" * 90 in printed(terminal)[1]


def test_without_a_terminal_nothing_is_shortened_or_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [(LONG * 9, ID, "active", 1, 2, ["t" * 300])], whole=("id",))
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == list(COLUMNS)
    assert LONG * 9 in row
    assert "t" * 300 in row


def test_a_table_without_rows_is_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "id"), [])
    assert capsys.readouterr().out == "name  id\n"


@given(st.lists(st.integers(1, 300), min_size=1, max_size=9), st.integers(1, 250), st.sets(st.integers(0, 8)))
def test_columns_fit_unless_those_that_must_be_whole_do_not(natural: list[int], width: int, whole: set[int]) -> None:
    whole &= set(range(len(natural)))
    widths = fit_columns(natural, whole, width=width)
    assert {0, *whole} <= widths.keys()
    assert all(widths[at] == natural[at] for at in whole)
    assert all(0 < each <= natural[at] for at, each in widths.items())
    optional = widths.keys() - whole - {0}
    assert sum(widths.values()) + 2 * (len(widths) - 1) <= width or not optional


WORDS = "An employee with 28 vacation days may carry over five of them. [1] https://kb.test/a/very/long/address/that/goes/on"


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("width", [12, 20, 60])
def test_an_answer_breaks_between_words_however_it_comes(
    capsys: pytest.CaptureFixture[str], size: int, width: int
) -> None:
    lines = WrappedLines(width=width)
    for at in range(0, len(WORDS), size):
        lines.write(WORDS[at : at + size])
    lines.end()
    shown = capsys.readouterr().out
    assert "".join(shown.split()) == "".join(WORDS.split()), "nothing is lost"
    parts = [line.split() for line in shown.splitlines()]
    words = WORDS.split()
    assert [word for line in parts for word in line if len(word) < width][:10] == [
        word for word in words if len(word) < width
    ][:10]
    assert all(cell_len(line) <= width for line in shown.splitlines() if "/" not in line)


def test_an_answer_in_a_script_without_spaces_is_shown_as_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    lines = WrappedLines(width=10)
    lines.write("有給休暇は二十八日です")
    assert len(capsys.readouterr().out.replace("\n", "")) == 10, "all but the last character, which may go on"


def test_lines_and_indents_of_an_answer_stay(capsys: pytest.CaptureFixture[str]) -> None:
    text = "- one\n  - two\n\n```\ncode  here\n```\n"
    lines = WrappedLines(width=40)
    lines.write(text)
    lines.end()
    assert capsys.readouterr().out == text


def test_an_answer_in_a_pipe_is_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    lines = WrappedLines(width=None)
    lines.write(WORDS)
    lines.end()
    assert capsys.readouterr().out == f"{WORDS}\n"
