from collections.abc import AsyncIterator

import pytest

from tests.kafka_cluster.busy import REPORTS
from tests.kafka_cluster.cluster import KafkaBrokers


@pytest.fixture(scope="session")
async def brokers_of_all_tests(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KafkaBrokers]:
    async with KafkaBrokers(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture
async def brokers(brokers_of_all_tests: KafkaBrokers) -> AsyncIterator[KafkaBrokers]:
    """Three brokers, all running and in sync; whatever a test does to them is healed after it."""
    yield brokers_of_all_tests
    await brokers_of_all_tests.heal()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if REPORTS:
        terminalreporter.section("what callers saw while brokers failed")
        for report in REPORTS:
            terminalreporter.write_line(report)
