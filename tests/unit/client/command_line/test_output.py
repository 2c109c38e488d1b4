"""Answers are printed as tables for people, and as JSON, rows of text or ids for programs."""

import csv
import json
import re
import time
from io import StringIO

import httpx
import pytest

from kb_client.command_line import waiting
from kb_client.command_line.output import open_console
from tests.unit.client.command_line.answering_api import KB_ID, KNOWLEDGE_BASE, CommandRunner, Terminal
from tests.waiting import BRAKE_S

OTHER = KNOWLEDGE_BASE | {"kb_id": "7" * 24, "name": 'Travel, "abroad"\tand\x1b[31m at home', "tag_ids": ["a", "b"]}


def answer(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={"knowledge_bases": [KNOWLEDGE_BASE, OTHER], "total_count": 2})


@pytest.mark.parametrize("options", [["--json"], ["--output", "json"], ["-o", "json"], ["--json", "--output", "json"]])
def test_json_is_the_answer_of_the_api(kb: CommandRunner, options: list[str]) -> None:
    result = kb(answer, "kb", "list", *options)
    assert json.loads(result.printed) == {"knowledge_bases": [KNOWLEDGE_BASE, OTHER], "total_count": 2}


def test_ids_are_lines(kb: CommandRunner) -> None:
    assert kb(answer, "kb", "list", "--output", "ids").printed == f"{KB_ID}\n{'7' * 24}\n"


def test_rows_have_the_fields_of_the_api(kb: CommandRunner) -> None:
    first, second = csv.DictReader(StringIO(kb(answer, "kb", "list", "-o", "csv").printed))
    assert (first["kb_id"], first["chunk_count"], first["min_score"]) == (KB_ID, "1234", "")
    assert (second["name"], second["tag_ids"]) == ('Travel, "abroad"\tand[31m at home', "a b")
    assert json.loads(second["rate_limits"]) == OTHER["rate_limits"]


def test_rows_with_tabs_have_no_other_tabs(kb: CommandRunner) -> None:
    lines = kb(answer, "kb", "list", "-o", "tsv").printed.splitlines()
    names, first, _ = (each.split("\t") for each in lines)
    assert {len(each.split("\t")) for each in lines} == {len(KNOWLEDGE_BASE)}
    assert json.loads(first[names.index("rate_limits")]) == KNOWLEDGE_BASE["rate_limits"]


def test_one_object_is_one_row(kb: CommandRunner) -> None:
    (row,) = csv.DictReader(StringIO(kb(answer, "kb", "show", "handbook", "-o", "csv").printed))
    assert row["name"] == "handbook"


def test_a_list_that_goes_on_says_so_beside_its_rows(kb: CommandRunner) -> None:
    result = kb(answer, "kb", "list", "--limit", "1", "-o", "ids")
    assert result.printed == f"{KB_ID}\n"
    assert "1 of 2" in result.errors


def test_two_formats_are_wrong_usage(kb: CommandRunner) -> None:
    assert kb(answer, "kb", "list", "--json", "--output", "csv").status == 2
    assert kb(answer, "usage", "--output", "ids").status == 2


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_fit_the_terminal_with_whole_ids(kb: CommandRunner, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("sys.stdout", terminal := Terminal())
    kb(answer, "kb", "list")
    lines = re.sub("\x1b\\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    assert any(KB_ID in line for line in lines)


@pytest.mark.parametrize(("no_color", "colored"), [("1", False), ("", True)])
def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch, no_color: str, *, colored: bool) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("sys.stdout", terminal := Terminal())
    open_console().print("hotel", style="yellow")
    assert terminal.getvalue() == ("\x1b[33mhotel\x1b[0m\n" if colored else "hotel\n")


def test_a_wait_is_shown_once_it_is_long(kb: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer_later(request: httpx.Request) -> httpx.Response:
        deadline = time.monotonic() + BRAKE_S
        while "waiting for the server" not in errors.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        return answer(request)

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(waiting, "SHOWN_AFTER_S", 0.01)
    monkeypatch.setattr("sys.stderr", errors := Terminal())
    assert kb(answer_later, "kb", "list").status == 0
    assert "waiting for the server" in errors.getvalue()
