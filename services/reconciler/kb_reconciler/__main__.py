"""`python -m kb_reconciler`: queues documents with drift and restores missing indexes, until SIGTERM."""

import asyncio

from kb_reconciler import bootstrap
from kb_reconciler.settings import ReconcilerSettings
from kb_shared import failpoints
from kb_shared.observability import logs, metrics
from kb_shared.observability.traced_process import exporting_spans
from kb_shared.service import process
from kb_shared.service.production import check_settings


async def serve(stop: asyncio.Event) -> None:
    settings = ReconcilerSettings()
    logs.configure("kb-reconciler", settings.log_level)
    metrics.export_build_info("kb-reconciler")
    failpoints.arm()
    await check_settings(settings)
    with exporting_spans("kb-reconciler"):
        await bootstrap.serve(settings, stop)


def main() -> None:
    process.run(serve)


if __name__ == "__main__":
    main()
