"""`python -m kb_knowledge.runner`: reads the sources of all organizations until SIGTERM."""

import asyncio

from kb_knowledge.runner.bootstrap import build
from kb_knowledge.runner.settings import RunnerSettings
from kb_shared import failpoints
from kb_shared.observability import logs, metrics
from kb_shared.observability.traced_process import exporting_spans
from kb_shared.service import process
from kb_shared.service.production import check_settings


async def serve(stop: asyncio.Event) -> None:
    settings = RunnerSettings()
    logs.configure("kb-knowledge-runner", settings.log_level)
    metrics.export_build_info("kb-knowledge-runner")
    failpoints.arm()
    await check_settings(settings)
    with exporting_spans("kb-knowledge-runner"):
        async with build(settings) as runner:
            await runner.run(stop)


def main() -> None:
    process.run(serve)


if __name__ == "__main__":
    main()
