"""Cancels runs of this process when a request asks for it, which may have reached another process.

The request is stored in the run. Each process looks once a second, in one query, at those of its runs that go on.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import structlog
from pymongo.errors import PyMongoError

from kb_search.runs.run_errors import RunCancelled
from kb_search.store import runs
from kb_search.store.keys import RunKey
from kb_shared.mongo.database import Database

LOOKED_AFTER_EVERY_S: Final = 1.0

log = structlog.get_logger()


class RunCancellations:
    """The runs of one process that can be cancelled."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tasks: dict[RunKey, asyncio.Task[None]] = {}
        self._cancelled: set[RunKey] = set()
        self._watching: asyncio.Task[None] | None = None

    async def carry_out(self, key: RunKey, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of a run.

        Raises:
            RunCancelled: A request has cancelled it.
        """
        task = self._tasks[key] = asyncio.create_task(work)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
        try:
            await task
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if key in self._cancelled and own is not None and not own.cancelling():
                raise RunCancelled from None
            raise
        finally:
            del self._tasks[key]
            self._cancelled.discard(key)

    async def close(self) -> None:
        """End the watch."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching})

    async def _watch(self) -> None:
        while self._tasks:
            await asyncio.sleep(LOOKED_AFTER_EVERY_S)
            try:
                found = await runs.find_cancelled(self._database, [*self._tasks])
            except PyMongoError as error:
                log.warning("run.cancellations_unknown", error=type(error).__name__)
                continue
            for key in found & self._tasks.keys():
                self._cancelled.add(key)
                self._tasks[key].cancel()
