"""Records what callers saw: results, latencies, and the longest time without success."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

_KEPT_FAILURES: Final = 50


@dataclass(slots=True)
class _CallsOfKind:
    results: Counter[str] = field(default_factory=Counter)
    latencies_s: list[float] = field(default_factory=list)
    failed: int = 0
    longest_pause_s: float = 0.0
    last_success_at: float | None = None


@dataclass(slots=True)
class CallRecord:
    phase: str = "before"
    """Name of what happens at the moment; part of each failure."""
    clock: Callable[[], float] = monotonic
    failures: list[str] = field(default_factory=list)
    _kinds: dict[str, _CallsOfKind] = field(default_factory=dict)

    @property
    def number_of_failures(self) -> int:
        return sum(each.failed for each in self._kinds.values())

    def record(self, kind: str, result: object, *, due: float, failure: str | None = None) -> None:
        """Record the end of a call.

        Args:
            kind: of the call.
            result: status or name of the error.
            due: the time at which it was due.
            failure: what was wrong with the result; None: nothing.
        """
        calls, now = self._kinds.setdefault(kind, _CallsOfKind()), self.clock()
        calls.results[str(result)] += 1
        calls.latencies_s.append(now - due)
        if failure is not None:
            calls.failed += 1
            if len(self.failures) < _KEPT_FAILURES:
                self.failures.append(f"{kind}, during {self.phase}: {failure}")
            return
        if calls.last_success_at is not None:
            calls.longest_pause_s = max(calls.longest_pause_s, now - calls.last_success_at)
        calls.last_success_at = now

    def summary(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the figures of each kind of call, in seconds."""
        return {
            kind: {
                "calls": len(calls.latencies_s),
                "failed": calls.failed,
                "results": dict(calls.results),
                "median_s": quantile(calls.latencies_s, 0.5),
                "p99_s": quantile(calls.latencies_s, 0.99),
                "worst_s": quantile(calls.latencies_s, 1),
                "longest_pause_s": round(calls.longest_pause_s, 3),
            }
            for kind, calls in sorted(self._kinds.items())
        }


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest value that at least `share` of the values don't exceed; None if there are none."""
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 3)
