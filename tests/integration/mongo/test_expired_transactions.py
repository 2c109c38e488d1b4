"""A transaction whose time is over is called that, and not a conflict; and it is not restarted at once."""

import asyncio
from itertools import count

import pytest

from kb_shared.errors import TransactionExpired
from kb_shared.mongo.database import (
    TRANSACTION_LIFETIME_S,
    Database,
    MongoSession,
    in_transaction,
    transaction_lifetime_s,
)
from tests.integration.failing_commands import transaction_ended


async def test_a_transaction_that_the_server_ended_because_of_its_age_has_expired(database: Database) -> None:
    rows, attempts = database["rows"], count()

    async def work(session: MongoSession) -> None:
        next(attempts)
        await rows.insert_one({"_id": 1}, session=session)

    async with transaction_ended(database.client, "insert", namespace=rows.full_name):
        with pytest.raises(TransactionExpired):
            await in_transaction(database, work, lifetime_s=0)
    assert next(attempts) == 1
    assert await rows.count_documents({}) == 0


async def test_a_transaction_that_ended_before_its_time_is_restarted(database: Database) -> None:
    """As after a change of the primary: the new one does not know it."""
    rows, attempts = database["rows"], count()

    async def work(session: MongoSession) -> None:
        next(attempts)
        await rows.insert_one({"_id": 1}, session=session)

    async with transaction_ended(database.client, "insert", namespace=rows.full_name):
        await in_transaction(database, work)
    assert next(attempts) == 2
    assert await rows.count_documents({}) == 1


async def test_a_transaction_that_takes_longer_than_its_caller_allows_has_expired(database: Database) -> None:
    async def work(session: MongoSession) -> None:
        await database["rows"].insert_one({"_id": 1}, session=session)
        await asyncio.sleep(0.3)
        await database["rows"].insert_one({"_id": 2}, session=session)

    with pytest.raises(TransactionExpired):
        await in_transaction(database, work, within_s=0.25)
    assert await database["rows"].count_documents({}) == 0


async def test_mongodb_says_how_long_a_transaction_may_take(database: Database) -> None:
    lifetime_s = await transaction_lifetime_s(database)
    answer = await database.client.admin.command("getParameter", 1, transactionLifetimeLimitSeconds=1)
    assert lifetime_s == answer["transactionLifetimeLimitSeconds"]
    assert lifetime_s <= TRANSACTION_LIFETIME_S
