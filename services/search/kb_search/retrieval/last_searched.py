import asyncio
from datetime import UTC, datetime
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase

INTERVAL_S: Final = 5.0
_MOST_KNOWN: Final = 10_000

log = structlog.get_logger()


class LastSearched:
    """Updates `last_searched_at` of KBs in the background, accurate to a few seconds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._written: BoundedCache[str, bool] = BoundedCache(_MOST_KNOWN, lifetime_s=INTERVAL_S)
        self._writing: set[asyncio.Task[None]] = set()

    def record_search(self, kb: KnowledgeBase) -> None:
        """Record a search of the KB and return at once. The row is written at most every five seconds."""
        if self._written.find(kb.kb_id):
            return
        self._written.put(kb.kb_id, value=True)
        task = asyncio.create_task(self._write(kb, datetime.now(UTC)))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write(self, kb: KnowledgeBase, at: datetime) -> None:
        try:
            await knowledge_bases.note_search(self._database, kb.key, at=at)
        except PyMongoError:
            log.warning("last_searched.write_failed", kb_id=kb.kb_id, exc_info=True)

    async def close(self) -> None:
        """Wait until the writes in progress have ended."""
        await run_all(self._writing)
