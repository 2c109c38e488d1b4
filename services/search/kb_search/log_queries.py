import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_shared.mongo import query_log
from kb_shared.mongo.database import Database
from kb_shared.mongo.query_log import LoggedQuery

COLLECTED_FOR_S: Final = 1.0
_MAX_WAITING: Final = 10_000

log = structlog.get_logger()


class QueryLog:
    """Stores queries in the background, those of one second together.

    Queries that can't be stored are lost.
    """

    def __init__(self, database: Database, *, kept: timedelta) -> None:
        self._database = database
        self._kept = kept
        self._waiting: list[LoggedQuery] = []
        self._writer: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def add_query(self, query: LoggedQuery) -> None:
        """Add a query to those that are stored next, and return at once."""
        if len(self._waiting) >= _MAX_WAITING:
            return
        self._waiting.append(query)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())

    async def _write(self) -> None:
        while self._waiting:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), COLLECTED_FOR_S)
            batch, self._waiting = self._waiting, []
            try:
                await query_log.insert(self._database, batch, kept=self._kept)
            except PyMongoError as error:
                # The text of the error would contain the queries.
                log.warning("query_log.write_failed", queries=len(batch), error=type(error).__name__)

    async def close(self) -> None:
        """Store the queries that are waiting."""
        self._closing.set()
        if self._writer is not None:
            await self._writer
