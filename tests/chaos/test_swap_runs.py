import json
from pathlib import Path
from typing import Any

from tests.chaos.swap_runs import run_too_often

OF_JOB = {"kb_id": "kb", "document_id": "d", "job_token": "t"}


def log(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("\n".join([*map(json.dumps, lines), "no JSON", '{"event": "cut o']))
    return path


def test_a_swap_that_ran_more_than_twice_in_all_processes_together_is_found(tmp_path: Path) -> None:
    undone = {**OF_JOB, "event": "swap.undone", "times": 1}
    indexed = {**OF_JOB, "event": "document.indexed"}
    one = log(tmp_path / "kb-indexer.log", undone, {"event": "load.lowered"})
    assert run_too_often([one]) == []
    two = log(tmp_path / "kb-indexer-2.log", indexed, {**indexed, "job_token": "of the next text"})
    assert run_too_often([one, two]) == []
    three = log(tmp_path / "kb-indexer-3.log", indexed)
    [problem] = run_too_often([one, two, three])
    assert problem == "d in kb: the swap for job t ran 3 times"
