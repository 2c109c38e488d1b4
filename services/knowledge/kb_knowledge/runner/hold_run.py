"""Keeps the lease of a run while work is done, and ends the work when the lease is lost or a user cancels the run."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from kb_knowledge.store import source_runs
from kb_knowledge.store.source_runs import SourceRun
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.mongo.database import Database

LEASE: Final = timedelta(seconds=30)
LOOK_EVERY_S: Final = 1.0
"""Time between two looks at a run. A run ends within 5 s after it was cancelled."""


class RunTaken(Exception):
    """Another runner continues the run."""


class CancelRequested(Exception):
    """A user has asked to end the run."""


async def work_while_held(
    database: Database, run: SourceRun, work: Callable[[], Awaitable[None]], *, owner: str
) -> None:
    """Do `work`, which is cancelled when the run must end.

    Raises:
        RunTaken: another runner has taken the run.
        CancelRequested: a user has asked to end it.
    """
    ended = asyncio.Event()

    async def do_work() -> None:
        try:
            await work()
        finally:
            ended.set()

    async def watch() -> None:
        while not ended.is_set():
            held = await source_runs.renew(database, run, owner=owner, lease=LEASE)
            if held is None:
                raise RunTaken
            if held.cancel_requested:
                raise CancelRequested
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), LOOK_EVERY_S)

    await run_all_or_cancel([do_work(), watch()])
