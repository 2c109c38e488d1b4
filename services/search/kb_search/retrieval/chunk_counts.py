from typing import Final

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.mongo import kb_slots
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase

LIFETIME_S: Final = 5.0
_MOST_KNOWN: Final = 10_000


class ChunkCounts:
    """Counts the chunks of KBs; a count is up to a few seconds old, which is enough to choose how to search."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: BoundedCache[str, int] = BoundedCache(_MOST_KNOWN, lifetime_s=LIFETIME_S)

    async def count_chunks(self, kb: KnowledgeBase) -> int:
        if (known := self._known.find(kb.kb_id)) is not None:
            return known
        totals = await kb_slots.sum_counters(self._database, kb.organization_id, kb_ids=[kb.kb_id])
        _, count = totals.get(kb.kb_id, (0, 0))
        self._known.put(kb.kb_id, count)
        return count
