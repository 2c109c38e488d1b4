from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pymongo import AsyncMongoClient

from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_reconciler.backup.manifest import Manifest
from kb_shared.mongo.database import Database
from tests.conftest import RunningMongo
from tests.indexes import create_all_indexes
from tests.integration.indexer.conftest import (
    _commands,
    _emptied_database,
    command_log,
    indexer,
    own_database,
    provider,
    shared_database,
    tenant,
)
from tests.integration.indexer.support import Replica, replica
from tests.integration.reconciler.backups import SourceDeployment, back_up_whole, fill

__all__ = [
    "_commands",
    "_emptied_database",
    "command_log",
    "indexer",
    "own_database",
    "provider",
    "shared_database",
    "tenant",
]


@pytest.fixture(scope="module")
async def source_indexer(
    search_node: RunningMongo | SearchNodeProcess, model_server: ModelServerProcess
) -> AsyncIterator[Replica]:
    """Indexer of a database that the tests of a module back up."""
    async with AsyncMongoClient[dict[str, Any]](search_node.uri, tz_aware=True, w="majority") as client:
        database = client[f"test_source_{uuid4().hex[:16]}"]
        await create_all_indexes(database)
        async with replica(database, model_server.api_base) as made:
            yield made
        await client.drop_database(database.name)


@pytest.fixture(scope="module")
async def source(source_indexer: Replica) -> SourceDeployment:
    return await fill(source_indexer.database, source_indexer)


@dataclass(frozen=True, slots=True)
class FinishedBackup:
    """Backup of `source`."""

    folder: Path
    manifest: Manifest


@pytest.fixture(scope="module")
async def finished(source: SourceDeployment, tmp_path_factory: pytest.TempPathFactory) -> FinishedBackup:
    folder = tmp_path_factory.mktemp("backup") / "whole"
    return FinishedBackup(folder, await back_up_whole(source.database, folder))


@pytest.fixture
def target(search_database: Database) -> Database:
    """A database that does not exist yet."""
    return search_database
