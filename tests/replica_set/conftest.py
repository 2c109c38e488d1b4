"""Three mongods, with a search node in front of each: started once, and healthy again at the start of each test."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from pymongo import AsyncMongoClient

from kb_local.mongod import REPLICA_SET
from kb_local.replica_set import ReplicaSet
from kb_local.search_nodes import SearchNodes

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.replica_set)


# As those of the one mongod of other tests: killed clients leave transactions, and some commands are made to fail.
FOR_TESTS: Final[dict[str, Any]] = {"transaction_lifetime_s": 5, "parameters": {"enableTestCommands": "1"}}
SUMMARIES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def summaries(pytestconfig: pytest.Config) -> list[str]:
    """Gets what is to be printed at the end of the run: what callers saw of each fault."""
    return pytestconfig.stash.setdefault(SUMMARIES, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if collected := config.stash.get(SUMMARIES, []):
        terminalreporter.section("what callers saw of three mongods", sep="-")
        for summary in collected:
            terminalreporter.write_line(summary)


@pytest.fixture(scope="session")
async def started_set(server_logs: Path) -> AsyncIterator[ReplicaSet]:
    async with ReplicaSet(server_logs / "replica-set", **FOR_TESTS) as started:
        yield started


@pytest.fixture(scope="session")
async def started_nodes(started_set: ReplicaSet, server_logs: Path) -> AsyncIterator[SearchNodes]:
    nodes = SearchNodes(started_set.addresses, set_name=REPLICA_SET, logs=server_logs)
    await nodes.start()
    yield nodes
    await nodes.stop()


@pytest.fixture
async def replica_set(started_set: ReplicaSet) -> ReplicaSet:
    """Three healthy members, to be killed and frozen; `.uri` is the plain set."""
    await started_set.heal()
    return started_set


@pytest.fixture
async def nodes(replica_set: ReplicaSet, started_nodes: SearchNodes) -> SearchNodes:
    """A running node in front of each of them; `.uri` is the set with search."""
    for node in started_nodes.nodes:
        if node.running:
            node.resume()
    await started_nodes.start()
    return started_nodes


@pytest.fixture
async def replicated_client(nodes: SearchNodes) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
    """A client of the nodes, as a service has it: with majority writes."""
    async with AsyncMongoClient[dict[str, Any]](nodes.uri, tz_aware=True, w="majority") as client:
        yield client
