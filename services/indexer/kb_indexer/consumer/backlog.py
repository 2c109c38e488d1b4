"""Finds knowledge bases with a long backlog: their further jobs are queued and delay those of no other KB."""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.mongo import index_jobs
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import LANE_LIMITS, LaneLimits
from kb_shared.mongo.keys import KnowledgeBaseKey

_KNOWN_FOR_S: Final = 1.0
_MOST_KNOWN: Final = 10_000

Owner = TypeVar("Owner", bound=Hashable)


class Backlog:
    """Counts open jobs of KBs, and jobs of organizations in the lanes, at most once a second each."""

    def __init__(
        self, database: Database, *, limits: LaneLimits = LANE_LIMITS, known_for_s: float = _KNOWN_FOR_S
    ) -> None:
        self._of_kb: _Allowances[KnowledgeBaseKey] = _Allowances(
            lambda kb: index_jobs.count_open(database, kb, limit=limits.of_kb),
            limit=limits.of_kb,
            known_for_s=known_for_s,
        )
        self._of_organization: _Allowances[str] = _Allowances(
            lambda organization: index_jobs.count_in_lanes(database, organization, limit=limits.of_organization),
            limit=limits.of_organization,
            known_for_s=known_for_s,
        )

    async def is_long(self, kb: KnowledgeBaseKey) -> bool:
        """Return whether the next job of `kb` has to be queued. If not, the job is counted until the next count."""
        of_kb, of_organization = await run_all_or_cancel(
            [self._of_kb.find(kb), self._of_organization.find(kb.organization_id)]
        )
        if of_kb.left <= 0 or of_organization.left <= 0:
            return True
        of_kb.left -= 1
        of_organization.left -= 1
        return False


@dataclass(slots=True)
class _Allowance:
    """Number of jobs that may be added to a lane before the next count."""

    left: int


class _Allowances(Generic[Owner]):
    """Allowances of KBs or of organizations, each known for a while."""

    def __init__(self, count: Callable[[Owner], Awaitable[int]], *, limit: int, known_for_s: float) -> None:
        self._count = count
        self._limit = limit
        self._counted = BatchLoader(self._count_all)
        self._known: BoundedCache[Owner, _Allowance] = BoundedCache(_MOST_KNOWN, lifetime_s=known_for_s)

    async def find(self, owner: Owner) -> _Allowance:
        if (known := self._known.find(owner)) is not None:
            return known
        counted = await self._counted(owner) or 0
        # Another caller may have waited for the same count.
        if (known := self._known.find(owner)) is None:
            known = _Allowance(self._limit - counted)
            self._known.put(owner, known)
        return known

    async def _count_all(self, owners: Sequence[Owner]) -> Mapping[Owner, int]:
        return dict(zip(owners, await run_all_or_cancel(map(self._count, owners)), strict=True))
