from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kb_contracts import topics
from kb_local.python_server import ModelServer, SearchNode
from kb_local.zygote import Zygote
from tests.conftest import MongoDeployment
from tests.kafka_cluster.busy import REPORTS, Busy, Foundations, busy_system
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


@pytest.fixture
def foundations(
    brokers: KafkaBrokers, search_node: MongoDeployment | SearchNode, model_server: ModelServer, zygote: Zygote
) -> Foundations:
    return Foundations(brokers, search_node.uri, model_server.api_base, zygote)


@pytest.fixture
async def busy(request: pytest.FixtureRequest, foundations: Foundations, tmp_path: Path) -> AsyncIterator[Busy]:
    title = request.node.name.removeprefix("test_").replace("_", " ")
    async with busy_system(foundations, tmp_path, title) as opened:
        yield opened


@pytest.fixture
def document_events(busy: Busy) -> str:
    """The name of the topic."""
    return busy.system.stack.topic_prefix + topics.DOCUMENT_EVENTS.name


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if REPORTS:
        terminalreporter.section("what callers saw while brokers failed")
        for report in REPORTS:
            terminalreporter.write_line(report)
