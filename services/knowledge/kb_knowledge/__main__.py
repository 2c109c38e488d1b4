"""`python -m kb_knowledge`: serves entries and learns what becomes of them until SIGTERM."""

import asyncio

from kb_knowledge.bootstrap import build
from kb_knowledge.settings import KnowledgeSettings
from kb_shared import failpoints
from kb_shared.observability import logs, metrics
from kb_shared.observability.traced_process import exporting_spans
from kb_shared.service import process
from kb_shared.service.production import check_settings


async def serve(stop: asyncio.Event) -> None:
    settings = KnowledgeSettings()
    logs.configure("kb-knowledge", settings.log_level)
    metrics.export_build_info("kb-knowledge")
    failpoints.arm()
    await check_settings(settings)
    with exporting_spans("kb-knowledge"):
        async with build(settings) as service:
            await service.run(stop)


def main() -> None:
    process.run(serve)


if __name__ == "__main__":
    main()
