"""Each fault raises exactly its alert, and the commands of the runbook end it. Real Prometheus and Alertmanager."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pytest

from tests.alerts.faults import FAULTS, AlertFault
from tests.alerts.notifications import Notification
from tests.alerts.observed_system import ObservedSystem
from tests.deployment.alert_rules import RUNBOOKS
from tests.docs.commands import RunbookStep, commands_of_step
from tests.docs.shell import run_page
from tests.waiting import until

pytestmark = pytest.mark.prometheus
FIRES_WITHIN_S = 180.0
ENDS_WITHIN_S = 180.0
STEP_WITHIN_S = 300.0
"""A process that does not end by itself is killed after a minute."""


@dataclass(frozen=True, slots=True)
class AlertTimes:
    fault: str
    alert: str
    notified_after_s: float
    """From the injection to the notification."""
    over_after_s: float
    """From the end of the commands to the notification that it is over."""


TIMES: list[AlertTimes] = []


async def run_step(observed: ObservedSystem, alert: str, step: RunbookStep, folder: Path) -> None:
    page = RUNBOOKS / f"{alert}.md"
    commands = commands_of_step(page.read_text(), step)
    assert commands, f"{page} has no command to {step}"
    await asyncio.to_thread(folder.mkdir)
    await run_page(str(page), commands, folder=folder, variables=observed.variables, within_s=STEP_WITHIN_S)


async def wait_until_quiet(observed: ObservedSystem) -> None:
    async def no_alert_fires() -> bool:
        return not await observed.unmuted_alerts()

    await until(no_alert_fires, within_s=ENDS_WITHIN_S, every_s=0.5)


def last_words(notifications: list[Notification]) -> list[Notification]:
    """Return the last notification about each alert."""
    return list({tuple(sorted(each.labels.items())): each for each in notifications}.values())


async def wait_until_over(observed: ObservedSystem, *, since: float) -> None:
    """Wait until the last word about each alert is that it is over."""

    def firing() -> list[Notification]:
        return [each for each in last_words(observed.notifications.since(since)) if each.is_firing]

    try:
        await until(lambda: not firing(), within_s=ENDS_WITHIN_S)
    except TimeoutError:
        pytest.fail(f"still firing: {firing()}")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.alert)
async def test_a_fault_raises_its_alert_and_its_runbook_ends_it(
    fault: AlertFault, observed: ObservedSystem, tmp_path: Path
) -> None:
    await wait_until_quiet(observed)
    async with AsyncExitStack() as cause:
        began = monotonic()
        await cause.enter_async_context(fault.inject(observed))

        def is_notified() -> bool:
            return any(each.alert == fault.alert and each.is_firing for each in observed.notifications.since(began))

        await until(is_notified, what=f"{fault.alert} is notified", within_s=FIRES_WITHIN_S)
        notified = monotonic()
        await run_step(observed, fault.alert, "diagnose", tmp_path / "diagnose")
        if not fault.is_ended_by_commands:
            await cause.aclose()
        await run_step(observed, fault.alert, "resolve", tmp_path / "resolve")
        resolved = monotonic()
        await wait_until_over(observed, since=began)
    TIMES.append(AlertTimes(fault.what, fault.alert, notified - began, monotonic() - resolved))
    await wait_until_quiet(observed)
    received = [each for each in observed.notifications.since(began) if each.is_firing]
    assert {each.alert for each in received} == {fault.alert}
    assert not [each for each in received if "<error" in str(each.annotations)], "a template failed"
