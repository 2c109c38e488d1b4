"""`python -m kb_reconciler`: queues again what is behind and mends what is missing, until SIGTERM."""

import asyncio

from kb_reconciler.bootstrap import build
from kb_reconciler.settings import ReconcilerSettings
from kb_shared import failpoints, logs, process


async def serve(stop: asyncio.Event) -> None:
    settings = ReconcilerSettings()
    logs.configure("kb-reconciler", settings.log_level)
    failpoints.arm()
    async with build(settings, stop) as reconciler:
        await reconciler.run(stop)


def main() -> None:
    process.run(serve)


if __name__ == "__main__":
    main()
