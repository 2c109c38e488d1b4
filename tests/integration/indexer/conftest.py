from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from pymongo import AsyncMongoClient

from kb_local.ports import NO_TLS
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_shared.mongo import backfills, index_jobs, knowledge_bases, reconcile_plans
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.conftest import RunningMongo, begin_drop
from tests.indexes import create_all_indexes, delete_everything
from tests.integration.indexer.planted_drift import TEXTS
from tests.integration.indexer.support import CommandLog, Replica, Tenant, replica


@pytest.fixture(scope="session")
def _commands() -> CommandLog:
    return CommandLog()


@pytest.fixture(scope="session")
def _other_client_commands() -> CommandLog:
    return CommandLog()


@pytest.fixture(scope="session")
async def shared_database(
    search_node: RunningMongo | SearchNodeProcess, _commands: CommandLog
) -> AsyncIterator[Database]:
    """One database for the tests of this folder, which keep out of each other's way by having their own organizations.

    Making the indexes of all collections takes longer than most of the tests.
    """
    name = f"test_indexer_{uuid4().hex[:16]}"
    async with AsyncMongoClient[dict[str, Any]](
        search_node.uri, tz_aware=True, w="majority", event_listeners=[_commands]
    ) as client:
        await create_all_indexes(client[name])
        yield client[name]
        await client.drop_database(name)


@pytest.fixture(scope="session")
async def other_client_database(
    shared_database: Database, search_node: RunningMongo | SearchNodeProcess, _other_client_commands: CommandLog
) -> AsyncIterator[Database]:
    """The same database through a client of its own, as another process has."""
    async with AsyncMongoClient[dict[str, Any]](
        search_node.uri, tz_aware=True, w="majority", event_listeners=[_other_client_commands]
    ) as client:
        yield client[shared_database.name]


@pytest.fixture
def command_log(_commands: CommandLog) -> CommandLog:
    """Return the log of the commands that the test's replica sends to MongoDB; clear it at will."""
    _commands.clear()
    return _commands


@pytest.fixture
def rival_command_log(_other_client_commands: CommandLog) -> CommandLog:
    _other_client_commands.clear()
    return _other_client_commands


@pytest.fixture
async def tenant(shared_database: Database) -> AsyncIterator[Tenant]:
    yield Tenant(shared_database)
    # What is left open here would become the work of the next test that sweeps.
    for name in (index_jobs.NAME, backfills.NAME, reconcile_plans.NAME):
        await shared_database[name].delete_many({})


@pytest.fixture
async def indexer(shared_database: Database, model_server: ModelServerProcess) -> AsyncIterator[Replica]:
    async with replica(shared_database, model_server.api_base) as made:
        yield made


@pytest.fixture
async def expired_leases_replica(shared_database: Database, model_server: ModelServerProcess) -> AsyncIterator[Replica]:
    """Yield a replica whose leases expire at once, so that only the write fences protect its work."""
    async with replica(shared_database, model_server.api_base, lease=timedelta(0)) as made:
        yield made


@pytest.fixture
async def rival(other_client_database: Database, model_server: ModelServerProcess) -> AsyncIterator[Replica]:
    """Yield another replica whose leases expire at once, as if of another process."""
    async with replica(other_client_database, model_server.api_base, lease=timedelta(0)) as made:
        yield made


@dataclass(frozen=True, slots=True)
class ModelControls:
    """The controls of the hash models."""

    http: httpx.AsyncClient

    async def program_faults(self, *faults: dict[str, Any]) -> None:
        (await self.http.put("/admin/hash", json={"faults": list(faults)})).raise_for_status()

    async def inputs(self) -> int:
        """Count the texts that it was asked to embed."""
        return int((await self.http.get("/admin/hash")).json()["inputs"])


@pytest.fixture
async def provider(model_server: ModelServerProcess) -> AsyncIterator[ModelControls]:
    async with model_controls(model_server) as controls:
        yield controls


@asynccontextmanager
async def model_controls(model_server: ModelServerProcess) -> AsyncIterator[ModelControls]:
    """Yield the controls of a model server whose models have no faults before and after."""
    async with httpx.AsyncClient(base_url=model_server.url, trust_env=False, verify=NO_TLS, timeout=60) as http:
        await http.delete("/admin/hash")
        yield ModelControls(http)
        await http.delete("/admin/hash")


@pytest.fixture(scope="session")
async def _emptied_database(search_client: AsyncMongoClient[dict[str, Any]]) -> AsyncIterator[Database]:
    database = search_client[f"test_indexer_own_{uuid4().hex[:16]}"]
    await create_all_indexes(database)
    yield database
    begin_drop(search_client, database.name)


@pytest.fixture
async def own_database(_emptied_database: Database) -> AsyncIterator[Database]:
    """An empty database of one test alone, for code that works on the jobs of all organizations."""
    yield _emptied_database
    await delete_everything(_emptied_database)


@pytest.fixture
def own_tenant(own_database: Database) -> Tenant:
    return Tenant(own_database)


@pytest.fixture
async def own_indexer(own_database: Database, model_server: ModelServerProcess) -> AsyncIterator[Replica]:
    async with replica(own_database, model_server.api_base) as made:
        yield made


@pytest.fixture
async def filled(tenant: Tenant, indexer: Replica) -> KnowledgeBase:
    """A KB with the documents of TEXTS."""
    return await _fill(tenant, indexer)


@pytest.fixture
async def own_filled(own_tenant: Tenant, own_indexer: Replica) -> KnowledgeBase:
    """The same in a database of one test alone."""
    return await _fill(own_tenant, own_indexer)


async def _fill(tenant: Tenant, indexer: Replica) -> KnowledgeBase:
    kb = await tenant.create_kb("a")
    await indexer.publish(*(tenant.ocr(document_id, text) for document_id, text in TEXTS.items()))
    await indexer.work()
    return await knowledge_bases.get(tenant.database, kb.key)
