"""Finds knowledge bases with a long backlog: their further commands go to the bulk lane and delay no other KB."""

from collections.abc import Mapping, Sequence
from typing import Final

from kb_shared.concurrency.batch_loader import BatchLoader
from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.mongo import index_jobs
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import BACKLOG_LIMIT
from kb_shared.mongo.keys import KnowledgeBaseKey

_KNOWN_FOR_S: Final = 1.0
_MOST_KNOWN: Final = 10_000


class Backlog:
    """Counts the open jobs of KBs, at most once a second each."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open = BatchLoader(self._count)
        self._known: BoundedCache[KnowledgeBaseKey, bool] = BoundedCache(_MOST_KNOWN, lifetime_s=_KNOWN_FOR_S)

    async def is_long(self, kb: KnowledgeBaseKey) -> bool:
        if (known := self._known.find(kb)) is not None:
            return known
        is_long = (await self._open(kb) or 0) > BACKLOG_LIMIT
        self._known.put(kb, is_long)
        return is_long

    async def _count(self, kbs: Sequence[KnowledgeBaseKey]) -> Mapping[KnowledgeBaseKey, int]:
        counts = await run_all_or_cancel(
            index_jobs.count_open(self._database, kb, limit=BACKLOG_LIMIT + 1) for kb in kbs
        )
        return dict(zip(kbs, counts, strict=True))
