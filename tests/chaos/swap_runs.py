"""Counts from the logs of the indexers how often the swap of each version of a document ran."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

MOST_RUNS: Final = 2
"""Once for nothing, because the machine became slow under way, and once more."""
_KEPT: Final = frozenset({"document.indexed", "document.refreshed", "document.removed"})


def run_too_often(logs: Iterable[Path]) -> list[str]:
    """Return each version whose swap ran more than twice.

    A run counts from its first write of chunks to its commit or its end without one. What a process was at when it was
    killed does not count: no process could have finished it.
    """
    runs: Counter[tuple[str, str, str]] = Counter()
    for line in _lines(logs):
        version = line["kb_id"], line["document_id"], line["job_token"]
        if line["event"] in _KEPT:
            runs[version] += 1
        elif line["event"] == "swap.undone":
            runs[version] += line["times"]
    return [
        f"{document_id} in {kb_id}: the swap for job {token} ran {number} times"
        for (kb_id, document_id, token), number in runs.items()
        if number > MOST_RUNS
    ]


def _lines(logs: Iterable[Path]) -> Iterator[Mapping[str, Any]]:
    for log in logs:
        for text in log.read_text(errors="replace").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue  # a library's own, or one that a kill has cut off
            if isinstance(line, dict) and "job_token" in line:
                yield line
