"""Reads the logs of a stack together: `kb logs`."""

import json
import os
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kb_client.command_line.output import visible
from kb_local.errors import LocalStackError
from kb_local.state import Home

_LOOK_INTERVAL_S: Final = 0.3
_READ_BYTES: Final = 1_000_000
"""Bytes that are read of the end of a log."""
_ON_REQUEST: Final = frozenset({"mongod"})
"""Logs of many lines that say little."""
_NODE_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) ")
_NOT_SHOWN: Final = frozenset({"event", "exception", "level", "service", "timestamp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a log."""

    process: str
    time: str
    """In UTC; that of the line before where it has none of its own."""
    text: str
    record: Mapping[str, Any] | None
    """Fields that a service wrote as JSON."""

    def to_json(self) -> dict[str, Any]:
        """Return the line for programs."""
        written = {"message": self.text} if self.record is None else self.record
        return {"process": self.process, "time": self.time or None, **written}

    def describe(self) -> str:
        """Return the line for people: time, process, event, and what it is about."""
        beginning = f"{self.time[11:19] or ' ' * 8} {self.process:<20}"
        if self.record is None:
            return f"{beginning} {visible(self.text)}"
        level = self.record.get("level", "info")
        about = [f"{name}={_value(value)}" for name, value in self.record.items() if name not in _NOT_SHOWN]
        shown = [*([level.upper()] if level != "info" else []), str(self.record.get("event", "")), *about]
        trace = str(self.record.get("exception") or "")
        return visible("\n    ".join([f"{beginning} {' '.join(shown)}", *trace.splitlines()]))


def choose_logs(home: Home, name: str | None) -> Sequence[Path]:
    """Return the log of a process; without a name, all but that of mongod.

    Raises:
        LocalStackError: there is no log of this name, or none at all.
    """
    known = {path.stem: path for path in sorted(home.logs.glob("*.log"))}
    if not known:
        raise LocalStackError(f"there are no logs in {home.logs}", remedy="start a stack with `kb up`")
    if name is None:
        return [path for each, path in known.items() if each not in _ON_REQUEST]
    if name not in known:
        raise LocalStackError(f"there is no log of {name!r}", remedy=f"name one of {', '.join(known)}")
    return [known[name]]


def read_logs(logs: Sequence[Path], *, lines: int, follow: bool) -> Iterator[LogLine]:
    """Yield the last lines of all logs by their time, then, if wanted, those to come, until Ctrl-C."""
    readers = [LogReader(path) for path in logs]
    found = (line for reader in readers for line in deque(reader.read(), maxlen=lines))
    yield from sorted(found, key=lambda each: each.time)[-lines:] if lines else ()
    while follow:
        yield from sorted((line for reader in readers for line in reader.read()), key=lambda each: each.time)
        time.sleep(_LOOK_INTERVAL_S)


class LogReader:
    """Reads what a process appends to its log."""

    def __init__(self, path: Path) -> None:
        """Begin near the end of the log."""
        self._path = path
        self._at = max(0, path.stat().st_size - _READ_BYTES)
        self._skips_first = self._at > 0
        self._inode = path.stat().st_ino
        self._time = ""

    def read(self) -> Iterator[LogLine]:
        """Yield the whole lines since the last call."""
        try:
            with self._path.open("rb") as file:
                self._begin_again_if_replaced(file.fileno())
                file.seek(self._at)
                whole, _, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return
        self._at += len(whole) + 1 if whole else 0
        lines = whole.decode(errors="replace").splitlines()
        for text in lines[1:] if self._skips_first else lines:
            yield self._parse(text)
        self._skips_first = self._skips_first and not lines

    def _begin_again_if_replaced(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if found.st_ino != self._inode or found.st_size < self._at:
            self._inode, self._at = found.st_ino, 0

    def _parse(self, text: str) -> LogLine:
        record = _parse_record(text)
        self._time = _time_of(text, record) or self._time
        is_ours = record is not None and "event" in record
        return LogLine(process=self._path.stem, time=self._time, text=text, record=record if is_ours else None)


def _parse_record(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text) if text.startswith("{") else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _time_of(text: str, record: Mapping[str, Any] | None) -> str:
    """Return the time of a service, of mongod or of the search node, with milliseconds."""
    if record is not None:
        of_mongod = record.get("t")
        given = of_mongod.get("$date") if isinstance(of_mongod, dict) else record.get("timestamp")
        return f"{given[:23].rstrip('Z')}Z" if isinstance(given, str) else ""
    if (found := _NODE_TIME.match(text)) is not None:
        utc = datetime.fromisoformat(f"{found[1]}.{found[2]}").astimezone(UTC)
        return f"{utc:%Y-%m-%dT%H:%M:%S}.{found[2]}Z"
    return ""


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return json.dumps(text, ensure_ascii=False) if " " in text and isinstance(value, str) else text
