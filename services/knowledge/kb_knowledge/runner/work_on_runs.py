"""Claims runs and carries them out, several at a time, until the process ends."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from time import monotonic
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_knowledge.runner.hold_run import LEASE
from kb_knowledge.runner.run_source import SourceRunner
from kb_knowledge.runner.schedule_runs import request_due_runs
from kb_knowledge.store import source_runs
from kb_knowledge.store.source_runs import RunTrigger, SourceRun
from kb_shared.concurrency.work_signal import PollPause, WorkSignal
from kb_shared.errors import TransientError
from kb_shared.mongo.database import Database

_LOOK_EVERY_S: Final = 1.0
"""Time between two looks for runs while there are some, or while it can't be told when there is one."""

_PREVIEWS_AT_ONCE: Final = 2
"""Number of previews beside the runs: someone waits for a preview."""

_log = structlog.get_logger()


class RunQueue:
    """Works on the runs of all organizations, together with other processes."""

    def __init__(
        self, database: Database, runner: SourceRunner, *, owner: str, at_once: int, clock: Callable[[], datetime]
    ) -> None:
        self.signal = WorkSignal()
        """Wakes the queue when a run may be waiting."""
        self._pause = PollPause(self.signal, shortest_s=_LOOK_EVERY_S)
        self._database = database
        self._runner = runner
        self._owner = owner
        self._at_once = at_once
        self._clock = clock
        self._running: set[asyncio.Task[None]] = set()
        self._previews: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Work until cancelled. Runs in the middle are then continued by another process."""
        try:
            while True:
                began = monotonic()
                found = await self._begin_runs()
                await self._pause.after_poll(found=found, poll_took_s=monotonic() - began)
        finally:
            await self._stop_runs()

    async def _begin_runs(self) -> bool:
        """Begin what is waiting, as far as there is room; return whether a run was found."""
        try:
            await request_due_runs(self._database, now=self._clock())
            found = await self._begin(source_runs.RUNS, self._running, at_once=self._at_once)
            return await self._begin(source_runs.PREVIEWS, self._previews, at_once=_PREVIEWS_AT_ONCE) or found
        except (PyMongoError, TransientError) as error:
            _log.warning("source.claim_failed", error=type(error).__name__)
            return True

    async def _begin(self, triggers: Sequence[RunTrigger], tasks: set[asyncio.Task[None]], *, at_once: int) -> bool:
        found = False
        while len(tasks) < at_once:
            run = await source_runs.claim(self._database, owner=self._owner, lease=LEASE, triggers=triggers)
            if run is None:
                break
            found = True
            task = asyncio.create_task(self._carry_out(run))
            tasks.add(task)
            task.add_done_callback(self._on_end)
        return found

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._previews.discard(task)
        # Another run may have waited for its place.
        self.signal.wake()

    async def _carry_out(self, run: SourceRun) -> None:
        try:
            await self._runner.run(run)
        except Exception as error:  # noqa: BLE001  # one source must not end the runs of the others
            # Its lease expires, and a claim tries it again.
            bound = _log.bind(organization_id=run.organization_id, source_id=run.source_id)
            bound.error("source.run_failed", error=type(error).__name__)
        except asyncio.CancelledError:
            await source_runs.release(self._database, run, owner=self._owner)
            raise

    async def _stop_runs(self) -> None:
        tasks = [*self._running, *self._previews]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
