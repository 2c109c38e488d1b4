"""Removes the kind of a deleted source from its entries: the row and the event of an entry in one transaction.

A source may have more entries than a transaction has room for. So its deletion leaves the kind in their rows, where it
is found, also after a crash. Until then lists and searches agree on the kind of an entry.
"""

from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_knowledge.write_entries import EntryWriter
from kb_shared.concurrency.work_signal import WorkSignal
from kb_shared.errors import TransientError
from kb_shared.mongo import knowledge_entries
from kb_shared.mongo.database import Database, MongoSession, in_transaction, mongo_errors
from kb_shared.mongo.knowledge_entries import EntryKey

_AT_ONCE: Final = 500

log = structlog.get_logger()


class SourceKindRemover:
    """Works for all organizations. There is one in each process."""

    def __init__(self, database: Database, writer: EntryWriter) -> None:
        self._database = database
        self._writer = writer
        self.signal = WorkSignal()
        """Ends a pause: a source was deleted."""

    async def run(self, *, interval_s: float) -> None:
        """Work after each signal, and look every `interval_s` for what another process has left; cancel to stop."""
        while True:
            try:
                with mongo_errors():
                    removed = await self.remove_batch()
            except (PyMongoError, TransientError) as error:
                log.warning("entries.source_kinds_not_removed", error=type(error).__name__)
                removed = 0
            if removed < _AT_ONCE:
                await self.signal.wait(interval_s)

    async def remove_batch(self) -> int:
        """Remove the kind from up to 500 entries of deleted sources, which are indexed again; return their number."""
        keys = await knowledge_entries.find_of_deleted_sources(self._database, limit=_AT_ONCE)
        for key in keys:
            await self._remove(key)
        return len(keys)

    async def _remove(self, key: EntryKey) -> None:
        async def store(session: MongoSession) -> None:
            entry = await knowledge_entries.find(self._database, key, session=session)
            if entry is not None:
                # Nothing happens if another process has done it.
                await self._writer.change(session, entry, fields={"source_kind": None}, by=entry.updated_by)

        await in_transaction(self._database, store)
