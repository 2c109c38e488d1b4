"""Drift of every kind in 500 documents, planted at random, is repaired within two passes."""

from collections.abc import AsyncIterator

import pytest

from kb_local.python_server import ModelServerProcess
from kb_shared.mongo.database import Database
from tests.drift.lossy import lossy_replica
from tests.drift.scenario import PLANTS, run
from tests.drift.searching import document_search
from tests.indexes import create_all_indexes
from tests.integration.indexer.support import Replica, Tenant, replica

SEED = 16


@pytest.fixture
async def database(search_database: Database) -> Database:
    await create_all_indexes(search_database)
    return search_database


@pytest.fixture
async def indexer(database: Database, model_server: ModelServerProcess) -> AsyncIterator[Replica]:
    async with replica(database, model_server.api_base) as made:
        yield made


async def test_all_drift_is_repaired_within_two_passes_while_documents_are_indexed_and_read(
    database: Database, indexer: Replica, model_server: ModelServerProcess
) -> None:
    tenant, api_base = Tenant(database), model_server.api_base
    async with (
        lossy_replica(database, api_base) as lossy,
        document_search(database, api_base, organization_id=tenant.organization_id) as search,
    ):
        report = await run(tenant, indexer, lossy, search, documents=500, seed=SEED)
    assert report.planted.keys() == {kind for kind, _ in PLANTS}
    assert report.reads > 0
    assert report.searches > 0
    assert report.indexed_meanwhile > 0
