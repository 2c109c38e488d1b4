"""`python -m kb_indexer`: consumes document events and index requests until SIGTERM."""

import asyncio
import os
from typing import Final

from kb_indexer import bootstrap
from kb_indexer.settings import IndexerSettings
from kb_shared import failpoints
from kb_shared.observability import logs, metrics
from kb_shared.service import process

_NICENESS: Final = 5
"""Priority below the HTTP services: where they share cores, searches and requests come before waiting documents."""


async def serve(stop: asyncio.Event) -> None:
    settings = IndexerSettings()
    logs.configure("kb-indexer", settings.log_level)
    metrics.export_build_info("kb-indexer")
    failpoints.arm()
    await bootstrap.serve(settings, stop)


def main() -> None:
    os.nice(_NICENESS)
    process.run(serve)


if __name__ == "__main__":
    main()
