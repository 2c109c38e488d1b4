"""Decides how a run has ended."""

from dataclasses import dataclass, field

from kb_knowledge.sources.frontier import MAX_ITEMS, FrontierTotals
from kb_knowledge.sources.source_items import IN_THE_SOURCE, ItemOutcome
from kb_knowledge.store.source_runs import SourceRunStatus


@dataclass(slots=True)
class RunOutcome:
    """Result of a run, collected until it ends."""

    totals: FrontierTotals = field(default_factory=FrontierTotals)
    problem: str | None = None
    """Why items were left out, in words; None if none were."""
    is_unusable: bool = False
    """True if the source can't be read at all."""
    cancelled: bool = False

    first_failure: str | None = None
    """Address and message of the first item that failed."""

    @property
    def failed(self) -> int:
        return self.totals.outcomes.get(ItemOutcome.FAILED, 0)

    @property
    def read(self) -> int:
        """Return the number of items with a text, as the source has it now."""
        return sum(self.totals.outcomes.get(outcome, 0) for outcome in IN_THE_SOURCE) - self.failed

    @property
    def status(self) -> SourceRunStatus:
        if self.is_unusable or (not self.read and (self.failed or not self._reason)):
            return SourceRunStatus.ERROR
        return SourceRunStatus.PARTIAL if self._reason or self.failed else SourceRunStatus.OK

    @property
    def error(self) -> str | None:
        """Return why the run is not `ok`, in words."""
        if self._reason:
            return self._reason
        if self.failed:
            return f"{self.failed} items failed, the first one: {self.first_failure}"
        return None if self.read else f"nothing was read{self._explain_nothing()}"

    @property
    def _reason(self) -> str | None:
        if self.problem is None and self.totals.items >= MAX_ITEMS:
            return f"the limit of {MAX_ITEMS} items that a run can find was reached; others were not read"
        return self.problem

    def _explain_nothing(self) -> str:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.totals.outcomes.items() if count)
        if not counts:
            return ": the source has no items; check what it names"
        return f" ({counts}); see the messages of the run, and check what the source names"
