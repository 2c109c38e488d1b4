"""`python -m kb_console`: serves the web console until SIGTERM."""

import asyncio

from kb_console.bootstrap import build
from kb_console.settings import ConsoleSettings
from kb_shared.http import server
from kb_shared.observability import logs, metrics
from kb_shared.observability.traced_process import exporting_spans
from kb_shared.service import process


async def serve(stop: asyncio.Event) -> None:
    settings = ConsoleSettings()
    logs.configure("kb-console", settings.log_level)
    metrics.export_build_info("kb-console")
    with exporting_spans("kb-console"):
        async with build(settings) as app:
            await server.run(app, settings, stop)


def main() -> None:
    process.run(serve)


if __name__ == "__main__":
    main()
