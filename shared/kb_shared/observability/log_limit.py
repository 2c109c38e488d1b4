"""Limits repeated log lines to one per minute, with the number of omitted ones."""

import logging
import time
from collections.abc import Hashable
from typing import Final

INTERVAL_S: Final = 60.0


class LogLimit:
    """Decides which of many lines with the same cause are written."""

    def __init__(self, *, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._written_at: dict[Hashable, float] = {}
        self._left_out: dict[Hashable, int] = {}

    def admit(self, cause: Hashable) -> int | None:
        """Return None to omit the line, otherwise the number of lines omitted since the last one."""
        now = time.monotonic()
        written_at = self._written_at.get(cause)
        if written_at is not None and now - written_at < self._interval_s:
            self._left_out[cause] = self._left_out.get(cause, 0) + 1
            return None
        self._written_at[cause] = now
        return self._left_out.pop(cause, 0)


class RepetitionFilter(logging.Filter):
    """Limits the lines of one library, in which those with the same template count as equal."""

    def __init__(self, library: str) -> None:
        super().__init__()
        self._prefix = f"{library}."
        self._limit = LogLimit()

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(self._prefix):
            return True
        left_out = self._limit.admit((record.name, record.msg))
        if left_out is None:
            return False
        if left_out:
            record.msg = f"{record.getMessage()} (left out since the last one: {left_out})"
            record.args = ()
        return True
