from collections.abc import AsyncIterator

import pytest

from tests.alerts.observed_system import ObservedSystem, observed_system
from tests.alerts.test_faults import TIMES


@pytest.fixture(scope="package")
async def observed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ObservedSystem]:
    async with observed_system(tmp_path_factory.mktemp("alerts")) as running:
        yield running


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not TIMES:
        return
    terminalreporter.section("alerts")
    terminalreporter.line(f"{'fault':<28} {'alert':<24} {'notified after':>15} {'over after':>12}")
    for times in TIMES:
        terminalreporter.line(
            f"{times.fault:<28} {times.alert:<24} {times.notified_after_s:>13.0f} s {times.over_after_s:>10.0f} s"
        )
