"""Wakes the tasks of a process when a change in MongoDB may be work for them. It opens one change stream.

Nothing depends on it: while it can't watch, its signals are not reliable, and the tasks poll often. It needs no resume
token, because all tasks are woken whenever it begins to watch.
"""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import pymongo
import structlog
from pymongo.errors import OperationFailure, PyMongoError

from kb_shared.concurrency.work_signal import WorkSignal
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.observability.log_limit import LogLimit

_ANSWER_WITHIN_S: Final = 10.0
"""Time after which MongoDB answers that nothing has changed."""
_LATE_AFTER_S: Final = 15.0
"""Time after which an answer that did not come is a failure."""
_PAUSE_S: Final = 0.2
"""Pause after a change. The woken tasks poll often for some time, so that reading each change would be in vain."""
_AGAIN_AFTER_S: Final = 1.0
"""Pause before the stream is opened again; also after MongoDB closed it in order, as when its database is dropped."""
_AGAIN_AFTER_REFUSAL_S: Final = 60.0
_REFUSALS: Final = frozenset({13, 40573})
"""Error codes: no right to open change streams; no replica set."""

log = structlog.get_logger()

WatchedCollections: TypeAlias = Mapping[str, tuple[WorkSignal | tuple[WorkSignal, ...], Sequence[Row]]]


class WorkWatch:
    """Watches collections of one database; one per process."""

    def __init__(self, database: Database, signals: WatchedCollections) -> None:
        """Describe what is watched.

        Args:
            database: of the collections.
            signals: by collection, the signal of each task that finds work in it, and the conditions for a change that
                may be work: any of them.
        """
        self._database = database
        self._signals = {
            name: signal if isinstance(signal, tuple) else (signal,) for name, (signal, _) in signals.items()
        }
        self._changes = [
            {"ns.coll": name, **condition} for name, (_, conditions) in signals.items() for condition in conditions
        ]
        self._limit = LogLimit()

    async def run(self) -> None:
        """Watch for ever; cancel to stop."""
        while True:
            again_after_s = _AGAIN_AFTER_S
            try:
                await self._watch()
            except (PyMongoError, TimeoutError) as error:
                self._log_failure(error)
                if _is_refusal(error):
                    again_after_s = _AGAIN_AFTER_REFUSAL_S
            finally:
                self._set_reliable(now=False)
            await asyncio.sleep(again_after_s)

    async def _watch(self) -> None:
        """Watch until an error or until MongoDB closes the stream."""
        async with self._database.client.start_session() as session:
            opening: Row = {
                "aggregate": 1,
                "pipeline": [{"$changeStream": {}}, {"$match": {"$or": self._changes}}, {"$project": {"ns.coll": 1}}],
                "cursor": {},
            }
            cursor = (await self._run(opening, session))["cursor"]
            # What came before the stream was opened is found by the poll of each task.
            self._set_reliable(now=True)
            self._wake(self._signals)
            while cursor["id"]:
                reading: Row = {
                    "getMore": cursor["id"],
                    "collection": "$cmd.aggregate",
                    "maxTimeMS": int(_ANSWER_WITHIN_S * 1000),
                }
                cursor = (await self._run(reading, session))["cursor"]
                if cursor["nextBatch"]:
                    self._wake({change["ns"]["coll"] for change in cursor["nextBatch"]})
                    await asyncio.sleep(_PAUSE_S)

    async def _run(self, command: Row, session: MongoSession) -> dict[str, Any]:
        # No limit of the driver, which would replace `maxTimeMS`.
        with pymongo.timeout(0):
            async with asyncio.timeout(_LATE_AFTER_S):
                return await self._database.command(command, session=session)

    def _wake(self, collections: Mapping[str, object] | set[str]) -> None:
        for name in collections:
            for signal in self._signals[name]:
                signal.wake()

    def _set_reliable(self, *, now: bool) -> None:
        for signal in chain.from_iterable(self._signals.values()):
            if signal.is_reliable and not now:
                # The task may be in a long pause.
                signal.wake()
            signal.is_reliable = now

    def _log_failure(self, error: PyMongoError | TimeoutError) -> None:
        reason = type(error).__name__
        if (left_out := self._limit.admit(reason)) is not None:
            log.warning("work_watch.interrupted", error=reason, effect="polls often", left_out=left_out)


def _is_refusal(error: PyMongoError | TimeoutError) -> bool:
    return isinstance(error, OperationFailure) and error.code in _REFUSALS
