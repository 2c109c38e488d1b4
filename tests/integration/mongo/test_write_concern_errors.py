"""What no majority has acknowledged is not done: whatever the command, trying again may help."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from pymongo import InsertOne, UpdateOne
from pymongo.errors import BulkWriteError

from kb_shared.errors import TransientError
from kb_shared.mongo import documents
from kb_shared.mongo.database import Database, in_transaction, mongo_errors, upsert_all
from kb_shared.mongo.documents import AppliedEvent, Document, DocumentChange
from tests.integration.failing_commands import UNKNOWN_WRITE_CONCERN, unacknowledged

WRITES: Final[dict[str, Callable[[Any], Awaitable[Any]]]] = {
    "insert_one": lambda rows: rows.insert_one({"_id": 1}),
    "insert_many": lambda rows: rows.insert_many([{"_id": 1}, {"_id": 2}]),
    "update_one": lambda rows: rows.update_one({"_id": 1}, {"$set": {"n": 1}}),
    "update_many": lambda rows: rows.update_many({}, {"$set": {"n": 1}}),
    "delete_one": lambda rows: rows.delete_one({"_id": 1}),
    "find_one_and_update": lambda rows: rows.find_one_and_update({"_id": 1}, {"$set": {"n": 1}}),
    "bulk_write": lambda rows: rows.bulk_write([UpdateOne({"_id": 1}, {"$set": {"n": 1}})], ordered=False),
    "upsert_all": lambda rows: upsert_all(rows, [UpdateOne({"_id": 1}, {"$set": {"n": 1}}, upsert=True)]),
}
COMMANDS: Final = ("insert", "update", "delete", "findAndModify")


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_concern_error_is_transient(database: Database, write: str) -> None:
    with pytest.raises(TransientError), mongo_errors():
        async with unacknowledged(database.client, *COMMANDS, namespace=f"{database.name}.rows"):
            await WRITES[write](database["rows"])


async def test_a_write_concern_error_beside_write_errors_is_transient(database: Database) -> None:
    await database["rows"].insert_one({"_id": 1})
    writes = [InsertOne[dict[str, Any]]({"_id": 1}), InsertOne[dict[str, Any]]({"_id": 2})]
    with pytest.raises(TransientError), mongo_errors():
        async with unacknowledged(database.client, *COMMANDS, namespace=f"{database.name}.rows"):
            await database["rows"].bulk_write(writes, ordered=False)
    with pytest.raises(BulkWriteError), mongo_errors():
        await database["rows"].bulk_write(writes, ordered=False)


async def test_a_commit_that_no_majority_acknowledges_is_transient(database: Database) -> None:
    with pytest.raises(TransientError):
        async with unacknowledged(database.client, "commitTransaction", code=UNKNOWN_WRITE_CONCERN):
            await in_transaction(database, lambda session: database["rows"].insert_one({}, session=session))


async def test_a_commit_is_repeated_until_a_majority_acknowledges_it(database: Database) -> None:
    async with unacknowledged(database.client, "commitTransaction", times=2):
        await in_transaction(database, lambda session: database["rows"].insert_one({}, session=session))
    assert await database["rows"].count_documents({}) == 1


async def test_a_projection_that_no_majority_has_does_not_count_as_written(database: Database) -> None:
    repeated = change("a", "b")
    async with unacknowledged(database.client, "insert", namespace=f"{database.name}.{documents.NAME}"):
        with pytest.raises(TransientError), mongo_errors():
            await documents.write_all(database, [repeated])
    # Repeated, it finds what the first attempt wrote.
    assert await documents.write_all(database, [repeated]) == {repeated}


async def test_a_projection_does_not_count_as_written_because_another_write_ended_with_the_same_event(
    database: Database,
) -> None:
    faster, slower = change("a", "repeated"), change("a", "repeated")
    assert await documents.write_all(database, [faster]) == {faster}
    assert await documents.write_all(database, [slower]) == set()


async def test_a_projection_beside_one_that_was_faster_counts_only_with_the_majority(database: Database) -> None:
    await documents.write_all(database, [change("a", "of another")])
    both = [change("a", "ours"), change("b", "ours")]
    async with unacknowledged(database.client, "insert", namespace=f"{database.name}.{documents.NAME}"):
        with pytest.raises(TransientError), mongo_errors():
            await documents.write_all(database, both)
    assert await documents.write_all(database, both) == {both[1]}


def change(document_id: str, event_id: str) -> DocumentChange:
    event = AppliedEvent(event_id, "document.ocr_completed.v1", 1, "", datetime.now(UTC))
    return DocumentChange(Document("org", document_id), event)
