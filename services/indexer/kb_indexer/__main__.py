"""`python -m kb_indexer`: consumes document events and index requests until SIGTERM."""

import asyncio
import os
import sys
from contextlib import suppress
from typing import Final

from kb_indexer import bootstrap
from kb_indexer.settings import IndexerSettings
from kb_shared import failpoints
from kb_shared.observability import logs, metrics
from kb_shared.observability.traced_process import exporting_spans
from kb_shared.service import process
from kb_shared.service.production import check_settings

_NICENESS: Final = 3


async def serve(stop: asyncio.Event) -> None:
    settings = IndexerSettings()
    logs.configure("kb-indexer", settings.log_level)
    metrics.export_build_info("kb-indexer")
    failpoints.arm()
    await check_settings(settings)
    with exporting_spans("kb-indexer"):
        await bootstrap.serve(settings, stop)


def main() -> None:
    _yield_cores()
    process.run(serve)


def _yield_cores() -> None:
    """Let searches and requests come before waiting documents where they share cores (ADR 32)."""
    os.nice(_NICENESS)
    if sys.platform == "linux":
        # A batch process does not interrupt others when it wakes up. Some sandboxes refuse it; indexing works without.
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


if __name__ == "__main__":
    main()
