import asyncio
import os
import shutil
from pathlib import Path
from time import monotonic

from kb_client.events import EventPublisher
from kb_local.demo.api import Api
from kb_local.demo.figures import Figures
from kb_local.demo.story import Story
from kb_local.demo.telling import Telling
from kb_local.stack import Stack
from kb_local.state import home_of
from kb_shared.observability import logs


def run(*, as_json: bool) -> int:
    """Run the demo in a stack of its own and return the exit status. Data and logs: `.kb/demo`, emptied before."""
    home = home_of(os.environ)
    folder = home.folder / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    telling = Telling(as_json=as_json)
    # The story is told by itself; what the launchers log belongs to people who look into them.
    logs.configure("demo", "WARNING")
    asyncio.run(_run(folder, telling))
    if not as_json:
        home.prepare()
        secrets = home.read_secrets()
        telling.what_next(secrets.organization_id, secrets.api_key)
    return 0


async def _run(folder: Path, telling: Telling) -> None:
    figures = Figures()
    began = monotonic()
    telling.step("Starting mongod, the search node, the broker, the model server and the services")
    async with Stack(folder) as stack:
        figures.stack_ready_s = round(monotonic() - began, 2)
        telling.line(f"ready after {figures.stack_ready_s:.1f} s at {stack.base_url}")
        async with (
            Api(stack.base_url, stack.organization_id, stack.api_key, logs=stack.home.logs) as api,
            EventPublisher(stack.kafka_connection, source="/demo/documents", idempotence=False) as events,
        ):
            await Story(stack, api, events, telling, figures).tell()
        figures.total_s = round(monotonic() - began, 2)
    telling.figures(figures)
