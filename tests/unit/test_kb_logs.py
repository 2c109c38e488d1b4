"""`kb logs` shows the logs of all processes by time, and goes on with new lines."""

import json
from pathlib import Path

import pytest

from kb_local.errors import LocalStackError
from kb_local.log_reader import LogReader, choose_logs, read_logs
from kb_local.state import Home

SERVICE = json.dumps({"port": 1, "event": "http.listening", "level": "info", "timestamp": "2026-11-28T10:00:02.5Z"})
FAILED = json.dumps(
    {
        "event": "run.failed",
        "detail": "a b",
        "level": "error",
        "timestamp": "2026-11-28T10:00:04.000000Z",
        "exception": "Traceback\n  in f",
    }
)
MONGOD = '{"t":{"$date":"2026-11-28T10:00:01.000+00:00"},"s":"I","msg":"hello"}'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / ".kb")
    home.prepare()
    home.log("kb-api").write_text(f"{SERVICE}\n{FAILED}\n")
    home.log("broker").write_text("tansu broker\n\x1b[31mred\n")
    home.log("mongod").write_text(f"{MONGOD}\n")
    return home


def test_lines_of_all_processes_come_by_time_and_those_of_mongod_only_if_asked_for(home: Home) -> None:
    shown = [line.describe() for line in read_logs(choose_logs(home, None), lines=50, follow=False)]
    assert shown == [
        "         broker               tansu broker",
        "         broker               [31mred",
        "10:00:02 kb-api               http.listening port=1",
        '10:00:04 kb-api               ERROR run.failed detail="a b"\n    Traceback\n      in f',
    ]
    (mongod,) = read_logs(choose_logs(home, "mongod"), lines=50, follow=False)
    assert mongod.time == "2026-11-28T10:00:01.000Z"


def test_the_last_lines_of_all_are_shown(home: Home) -> None:
    assert len(list(read_logs(choose_logs(home, None), lines=1, follow=False))) == 1
    assert list(read_logs(choose_logs(home, None), lines=0, follow=False)) == []


def test_for_programs_a_line_is_an_object_with_its_process(home: Home) -> None:
    first, *_ = read_logs(choose_logs(home, "kb-api"), lines=50, follow=False)
    assert first.to_json() == {"process": "kb-api", "time": "2026-11-28T10:00:02.5Z", **json.loads(SERVICE)}
    plain, *_ = read_logs(choose_logs(home, "broker"), lines=50, follow=False)
    assert plain.to_json() == {"process": "broker", "time": None, "message": "tansu broker"}


def test_a_name_that_is_no_process_is_told_the_others(home: Home) -> None:
    with pytest.raises(LocalStackError) as refusal:
        choose_logs(home, "indexer")
    assert refusal.value.remedy == "name one of broker, kb-api, mongod"


def test_new_lines_are_read_once_they_are_whole_also_after_the_log_was_replaced(home: Home) -> None:
    log = home.log("broker")
    reader = LogReader(log)
    assert len(list(reader.read())) == 2
    with log.open("a") as file:
        file.write("one\ntw")
    assert [line.text for line in reader.read()] == ["one"]
    with log.open("a") as file:
        file.write("o\n")
    assert [line.text for line in reader.read()] == ["two"]
    log.replace(log.with_name("broker.log.1"))
    assert list(reader.read()) == []
    log.write_text("again\n")
    assert [line.text for line in reader.read()] == ["again"]


def test_of_a_log_of_many_megabytes_only_the_end_is_read(home: Home) -> None:
    home.log("broker").write_text("".join(f"line {number:09}\n" for number in range(200_000)))
    lines = list(LogReader(home.log("broker")).read())
    assert lines[-1].text == "line 000199999"
    assert 10_000 < len(lines) < 100_000
    assert all(line.text.startswith("line 0") for line in lines), "no half of a line"
