"""Records which responses callers got, and for how long no call succeeded."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic


@dataclass(frozen=True, slots=True)
class AvailabilitySummary:
    answers: Mapping[str, int]
    """Number of responses by operation and result, such as `search 503`."""
    gaps_s: Mapping[str, float]
    """Longest time without success, by operation, in seconds."""

    def lines(self) -> list[str]:
        responses = ", ".join(f"{answer}: {times}" for answer, times in sorted(self.answers.items()))
        without = ", ".join(f"{what} {gap:.1f} s" for what, gap in sorted(self.gaps_s.items()))
        return [f"callers saw {responses or 'nothing'}", f"longest time without success: {without or 'none'}"]


@dataclass(slots=True)
class AvailabilityRecorder:
    _answers: Counter[str] = field(default_factory=Counter)
    _succeeded_at: dict[str, float] = field(default_factory=dict)
    _gaps_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def record(self, what: str, answer: object, *, success: bool) -> None:
        """Count a response of an operation that is called all the time."""
        self._answers[f"{what} {answer}"] += 1
        self.record_progress(what, success=success)

    def count(self, what: str, answer: object) -> int:
        """Return how often an operation had this result."""
        return self._answers[f"{what} {answer}"]

    def record_progress(self, what: str, *, success: bool = True) -> None:
        """Note whether an operation succeeded; its time without success begins with the first call."""
        now = monotonic()
        since = self._succeeded_at.setdefault(what, now)
        self._gaps_s[what] = max(self._gaps_s[what], now - since)
        if success:
            self._succeeded_at[what] = now

    def summary(self) -> AvailabilitySummary:
        return AvailabilitySummary(dict(self._answers), {what: round(gap, 1) for what, gap in self._gaps_s.items()})


def error_name(error: BaseException) -> str:
    return type(error).__name__
