"""Has a runner read the beginning of a source. This process itself opens no address that a user has named."""

import asyncio
from time import monotonic
from typing import Final

from kb_knowledge.store import source_runs
from kb_knowledge.store.keys import SourceKey
from kb_knowledge.store.source_runs import RunTrigger, SourceRun
from kb_shared.concurrency.fair_queue import pause_turn
from kb_shared.errors import RequestError
from kb_shared.mongo.database import Database

WAITS_S: Final = 25.0
"""Time that a request waits for a runner, which reads for at most 10 s."""
_LOOK_EVERY_S: Final = 0.25


async def preview_source(database: Database, source: SourceKey, *, requested_by: str) -> SourceRun:
    """Return a run that stored nothing but what it shows.

    Raises:
        RequestError: 503 `runner-unavailable`, if no runner has ended it in time.
    """
    run = await source_runs.request(database, None, source, trigger=RunTrigger.PREVIEW, requested_by=requested_by)
    deadline = monotonic() + WAITS_S
    while monotonic() < deadline:
        # Other requests of the organization need not wait meanwhile.
        async with pause_turn():
            await asyncio.sleep(_LOOK_EVERY_S)
        found = await source_runs.find(database, run.key)
        if found is not None and found.finished_at is not None:
            return found
    await source_runs.request_cancel(database, run.key)
    raise RequestError(
        503,
        "runner-unavailable",
        "No runner has read the source in time: all are busy, or none is running. Try again later, or ask your "
        "operator whether kb-knowledge-runner works.",
        retry_after_s=30,
    )
