"""`python -m kb_search`: answers searches until SIGTERM."""

import asyncio

from kb_search.bootstrap import build
from kb_search.settings import SearchSettings
from kb_shared import failpoints
from kb_shared.http import server
from kb_shared.observability import logs, metrics
from kb_shared.observability.traced_process import exporting_spans
from kb_shared.service import process
from kb_shared.service.production import check_settings


async def serve(stop: asyncio.Event) -> None:
    settings = SearchSettings()
    logs.configure("kb-search", settings.log_level)
    metrics.export_build_info("kb-search")
    failpoints.arm()
    await check_settings(settings)
    with exporting_spans("kb-search"):
        async with build(settings, stop) as app:
            # A run that has begun is finished, however long it may take.
            await server.run(app, settings, stop, grace_s=settings.run_max_seconds + server.GRACE_S)


def main() -> None:
    process.run(serve)


if __name__ == "__main__":
    main()
