from time import monotonic
from typing import Final

from kb_shared.mongo import kb_slots
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase

LIFETIME_S: Final = 5.0
_MOST_KNOWN: Final = 10_000


class ChunkCounts:
    """How many chunks a KB has, a few seconds ago at most: enough to choose how to search it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, tuple[int, float]] = {}

    async def count_chunks(self, kb: KnowledgeBase) -> int:
        count, valid_until = self._known.get(kb.kb_id, (0, 0.0))
        if monotonic() < valid_until:
            return count
        totals = await kb_slots.totals(self._database, kb.organization_id, [kb.kb_id])
        _, count = totals.get(kb.kb_id, (0, 0))
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[kb.kb_id] = (count, monotonic() + LIFETIME_S)
        return count
