"""What callers saw of a system while something was wrong with it."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic


@dataclass(frozen=True, slots=True)
class Summary:
    answers: Mapping[str, int]
    """How often each thing was answered in each way, such as `search 503`."""
    gaps_s: Mapping[str, float]
    """The longest time, of each thing, in which it never succeeded."""

    def lines(self) -> list[str]:
        told = ", ".join(f"{answer}: {times}" for answer, times in sorted(self.answers.items()))
        without = ", ".join(f"{what} {gap:.1f} s" for what, gap in sorted(self.gaps_s.items()))
        return [f"callers saw {told or 'nothing'}", f"longest time without success: {without or 'none'}"]


@dataclass(slots=True)
class Experience:
    _answers: Counter[str] = field(default_factory=Counter)
    _succeeded_at: dict[str, float] = field(default_factory=dict)
    _gaps_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def note(self, what: str, answer: object, *, success: bool) -> None:
        """Add an answer to something that is asked for all the time."""
        self._answers[f"{what} {answer}"] += 1
        self.progressed(what, success=success)

    def times(self, what: str, answer: object) -> int:
        """Return how often `what` was answered so."""
        return self._answers[f"{what} {answer}"]

    def progressed(self, what: str, *, success: bool = True) -> None:
        """Note whether something has come of `what`; the first time begins its clock."""
        now = monotonic()
        since = self._succeeded_at.setdefault(what, now)
        self._gaps_s[what] = max(self._gaps_s[what], now - since)
        if success:
            self._succeeded_at[what] = now

    def summary(self) -> Summary:
        return Summary(dict(self._answers), {what: round(gap, 1) for what, gap in self._gaps_s.items()})


def kind_of(error: BaseException) -> str:
    return type(error).__name__
