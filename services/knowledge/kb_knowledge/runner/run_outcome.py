"""Decides how a run has ended."""

from dataclasses import dataclass, field

from kb_knowledge.sources.frontier import FrontierTotals
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

    @property
    def failed(self) -> int:
        return self.totals.outcomes.get(ItemOutcome.FAILED, 0)

    @property
    def status(self) -> SourceRunStatus:
        read = sum(self.totals.outcomes.get(outcome, 0) for outcome in IN_THE_SOURCE) - self.failed
        if self.is_unusable or (self.failed and not read):
            return SourceRunStatus.ERROR
        return SourceRunStatus.PARTIAL if self.problem or self.failed else SourceRunStatus.OK

    @property
    def error(self) -> str | None:
        """Return why the run is not `ok`, in words."""
        if self.problem:
            return self.problem
        return f"{self.failed} items failed; see the messages of the run" if self.failed else None
