import asyncio
import os
import shutil
from pathlib import Path
from time import monotonic

from kb_client.events import EventPublisher
from kb_local.demo.api import Api
from kb_local.demo.figures import Figures
from kb_local.demo.output import DemoOutput
from kb_local.demo.scenario import DemoScenario
from kb_local.stack import Stack
from kb_local.state import home_of
from kb_shared.observability import logs


def run(*, as_json: bool) -> int:
    """Run the demo in a stack of its own and return the exit status. Its folder, `.kb/demo`, is deleted first."""
    folder = home_of(os.environ).folder / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    output = DemoOutput(as_json=as_json)
    # The demo prints its own progress; log lines of the launchers would interrupt it.
    logs.configure("demo", "WARNING")
    asyncio.run(_run(folder, output))
    if not as_json:
        output.print_next_steps()
    return 0


async def _run(folder: Path, output: DemoOutput) -> None:
    figures = Figures()
    began = monotonic()
    output.print_step("Starting mongod, the search node, the broker, the model server and the services")
    async with Stack(folder) as stack:
        figures.stack_ready_s = round(monotonic() - began, 2)
        output.print_line(f"ready after {figures.stack_ready_s:.1f} s at {stack.base_url}")
        async with (
            Api(stack.base_url, stack.organization_id, api_key=stack.api_key, logs=stack.home.logs) as api,
            EventPublisher(stack.kafka_connection, source="/demo/documents", idempotence=False) as events,
        ):
            await DemoScenario(stack, api, events=events, output=output, figures=figures).run()
        figures.total_s = round(monotonic() - began, 2)
    output.print_figures(figures)
