"""An indexer that stores what events say and dies before it opens a job."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from kb_contracts.commands import SyncDocument
from kb_shared.mongo.database import Database
from tests.integration.indexer.support import Replica, replica


@asynccontextmanager
async def lossy_replica(database: Database, api_base: str) -> AsyncIterator[Replica]:
    async def forget(_: Collection[SyncDocument], **__: Any) -> None:
        pass

    async with replica(database, api_base) as made:
        made.requests.request = forget  # type: ignore[assignment,method-assign]  # as after a crash
        yield made
