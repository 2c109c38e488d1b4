"""A message is published only after a majority has it: a message that is rolled back was never published."""

from datetime import UTC, datetime

import pytest
from pymongo import AsyncMongoClient

from kb_local.replica_set import ReplicaSet
from kb_shared.mongo import database as mongo
from kb_shared.mongo import outbox
from kb_shared.mongo.database import Database, Row
from kb_shared.settings import CommonSettings
from tests.indexes import create_all_indexes

ANY = range(outbox.BUCKETS)


@pytest.mark.timeout(180)
async def test_a_message_that_only_an_isolated_primary_has_is_not_published(
    replica_set: ReplicaSet, database_name: str
) -> None:
    database = mongo.connect(CommonSettings(mongo_uri=replica_set.uri, mongo_database=database_name))
    async with database.client:
        await create_all_indexes(database)
        await leave_message(database, "known to all")
        assert await orderings(database) == ["known to all"]
        primary = await replica_set.primary()
        for secondary in await replica_set.secondaries():
            await secondary.kill()
        # It steps down within ten seconds; until then it accepts writes that are not replicated.
        async with AsyncMongoClient[Row](f"mongodb://{primary.address}/?directConnection=true", w=1) as client:
            isolated = client[database_name]
            await leave_message(isolated, "only here")
            assert await isolated[outbox.NAME].count_documents({}) == 2
            assert await orderings(isolated) == ["known to all"]
        await replica_set.heal()
        await database.client.drop_database(database_name)


async def orderings(database: Database) -> list[str]:
    return [message.ordering for message in await outbox.find_unsent(database, ANY, limit=10)]


async def leave_message(database: Database, ordering: str) -> None:
    await database[outbox.NAME].insert_one(
        {
            "topic": "kb-events",
            "key": "k",
            "value": b"{}",
            "traceparent": "",
            "ordering": ordering,
            "seq": 0,
            "bucket": 0,
            "created_at": datetime.now(UTC),
            "sent_at": None,
        }
    )
