from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kb_contracts import topics
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.zygote import Zygote
from tests.conftest import RunningMongo
from tests.kafka_cluster.cluster import KafkaBrokers
from tests.kafka_cluster.loaded_system import REPORTS, LoadedSystem, SharedServers, start_loaded_system


@pytest.fixture(scope="session")
async def session_brokers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KafkaBrokers]:
    async with KafkaBrokers(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture
async def brokers(session_brokers: KafkaBrokers) -> AsyncIterator[KafkaBrokers]:
    """Three brokers, all running and in sync; whatever a test does to them is healed after it."""
    yield session_brokers
    await session_brokers.heal()


@pytest.fixture
def shared_servers(
    brokers: KafkaBrokers,
    search_node: RunningMongo | SearchNodeProcess,
    model_server: ModelServerProcess,
    zygote: Zygote,
) -> SharedServers:
    return SharedServers(brokers, search_node.uri, model_server.api_base, zygote)


@pytest.fixture
async def loaded(
    request: pytest.FixtureRequest, shared_servers: SharedServers, tmp_path: Path
) -> AsyncIterator[LoadedSystem]:
    title = request.node.name.removeprefix("test_").replace("_", " ")
    async with start_loaded_system(shared_servers, tmp_path, title) as opened:
        yield opened


@pytest.fixture
def document_events(loaded: LoadedSystem) -> str:
    """The name of the topic."""
    return loaded.system.stack.topic_prefix + topics.DOCUMENT_EVENTS.name


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if REPORTS:
        terminalreporter.section("what callers saw while brokers failed")
        for report in REPORTS:
            terminalreporter.write_line(report)
