"""`python -m kb_api`: serves HTTP and takes KBs through their lives until SIGTERM."""

import asyncio

from kb_api.bootstrap import build
from kb_api.settings import ApiSettings
from kb_shared import failpoints
from kb_shared.observability import logs, metrics
from kb_shared.observability.traced_process import exporting_spans
from kb_shared.service import process
from kb_shared.service.production import check_settings


async def serve(stop: asyncio.Event) -> None:
    settings = ApiSettings()
    logs.configure("kb-api", settings.log_level)
    metrics.export_build_info("kb-api")
    failpoints.arm()
    await check_settings(settings)
    with exporting_spans("kb-api"):
        async with build(settings) as api:
            await api.run(stop)


def main() -> None:
    process.run(serve)


if __name__ == "__main__":
    main()
