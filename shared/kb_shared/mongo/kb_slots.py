"""`kb_slots`: sixteen stripes of a KB, each its fence and its counters.

Every swap and removal writes the stripe of its document, under the condition that the KB is live and has the tags
the decision was made for; a swap also, that it is not paused. Deleting a KB, changing its tags, pausing and resuming
it hold the door of all stripes and write them first. One row instead of sixteen stalls: 64 swaps in flight went through
at 9 documents/s.
"""

import hashlib
from datetime import timedelta
from typing import Final

import pymongo
from pymongo import ASCENDING, IndexModel, InsertOne

from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey

NAME = "kb_slots"
INDEXES = [IndexModel([("kb_id", ASCENDING)])]
STRIPES = 16
HELD_FOR: Final = timedelta(seconds=3)

# A door that was never closed has no time, which is less than any.
_DOOR_IS_OPEN: Final[Row] = {"$expr": {"$lt": ["$closed_until", "$$NOW"]}}
_NOT_PAUSED: Final[Row] = {"paused": {"$ne": True}}


def row_id(kb_id: str, document_id: str) -> str:
    stripe = hashlib.sha256(document_id.encode()).digest()[0] % STRIPES
    return f"{kb_id}/{stripe}"


async def create(database: Database, session: MongoSession, key: KnowledgeBaseKey, *, tags_version: int) -> None:
    await database[NAME].bulk_write(
        [
            InsertOne(
                {
                    "_id": f"{key.kb_id}/{stripe}",
                    "kb_id": key.kb_id,
                    "organization_id": key.organization_id,
                    "state": "live",
                    "tags_version": tags_version,
                    "documents": 0,
                    "chunks": 0,
                }
            )
            for stripe in range(STRIPES)
        ],
        session=session,
    )


async def fence(
    database: Database,
    session: MongoSession,
    key: MembershipKey,
    *,
    tags_version: int,
    documents: int,
    chunks: int,
    even_if_paused: bool = False,
) -> bool:
    """Add to the counters if the KB is live with the tags of `tags_version` and nobody holds the door.

    Args:
        even_if_paused: for removals, which go on in a paused KB.
    Returns:
        False means abort: what the decision was made for has changed, or is about to.
    """
    written = await database[NAME].update_one(
        {
            "_id": row_id(key.kb_id, key.document_id),
            "organization_id": key.organization_id,
            "state": "live",
            "tags_version": tags_version,
            **({} if even_if_paused else _NOT_PAUSED),
            **_DOOR_IS_OPEN,
        },
        # A write that changes nothing is none and would fence nothing: `writes` always changes.
        {"$inc": {"documents": documents, "chunks": chunks, "writes": 1}},
        session=session,
    )
    return written.matched_count == 1


async def fence_paused(database: Database, session: MongoSession, key: MembershipKey) -> bool:
    """Return whether the KB is paused, and stays so until the transaction of `session` ends. False means abort."""
    written = await database[NAME].update_one(
        {
            "_id": row_id(key.kb_id, key.document_id),
            "organization_id": key.organization_id,
            "paused": True,
            **_DOOR_IS_OPEN,
        },
        {"$inc": {"writes": 1}},
        session=session,
    )
    return written.matched_count == 1


async def hold(database: Database, key: KnowledgeBaseKey) -> None:
    """Close the door for swaps, and wait for those inside, so that a transaction on all slots conflicts with none.

    Without it such a transaction loses to the swaps of a busy KB, attempt after attempt. A single write waits its turn
    in the server, a transaction never does. What writes all slots opens the door again; after a crash, or if its
    transaction comes to nothing, it opens by itself after `HELD_FOR`.

    Raises:
        NetworkTimeout, ExecutionTimeout: a swap stayed inside for longer than `HELD_FOR`.
    """
    until = {"$add": ["$$NOW", int(HELD_FOR.total_seconds() * 1000)]}
    # Waiting longer would be for nothing: the slots closed first would be open again.
    with pymongo.timeout(HELD_FOR.total_seconds()):
        await database[NAME].update_many(_of_kb(key), [{"$set": {"closed_until": until}}])


async def set_tags_version(
    database: Database, session: MongoSession, key: KnowledgeBaseKey, *, tags_version: int
) -> None:
    """From the commit on no swap decided for the old tags goes through; `hold` first."""
    await _write_all(database, session, key, fields={"tags_version": tags_version})


async def set_paused(database: Database, session: MongoSession, key: KnowledgeBaseKey, *, paused: bool) -> None:
    """From the commit on no swap of this KB goes through, or they do again; `hold` first."""
    await _write_all(database, session, key, fields={"paused": paused})


async def close(database: Database, session: MongoSession, key: KnowledgeBaseKey) -> None:
    """From the commit on no swap of this KB goes through; `hold` first."""
    await _write_all(database, session, key, fields={"state": "deleting"})


async def _write_all(database: Database, session: MongoSession, key: KnowledgeBaseKey, *, fields: Row) -> None:
    await database[NAME].update_many(_of_kb(key), {"$set": {**fields, "closed_until": None}}, session=session)


async def totals(database: Database, organization_id: str, kb_ids: list[str]) -> dict[str, tuple[int, int]]:
    """(documents, live chunks) of each KB."""
    stages = [
        {"$match": {"kb_id": {"$in": kb_ids}, "organization_id": organization_id}},
        {"$group": {"_id": "$kb_id", "documents": {"$sum": "$documents"}, "chunks": {"$sum": "$chunks"}}},
    ]
    rows = await database[NAME].aggregate(stages)
    return {row["_id"]: (row["documents"], row["chunks"]) async for row in rows}


def counted() -> list[Row]:
    """The stages of a query on KBs that add `document_count` and `chunk_count` to each."""
    sums = {"_id": None, "document_count": {"$sum": "$documents"}, "chunk_count": {"$sum": "$chunks"}}
    mine = {"$match": {"$expr": {"$eq": ["$organization_id", "$$organization_id"]}}}
    looked_up = {
        "from": NAME,
        "localField": "_id",
        "foreignField": "kb_id",
        "let": {"organization_id": "$organization_id"},
        "pipeline": [mine, {"$group": sums}],
        "as": "counted",
    }
    counts = {name: {"$ifNull": [{"$first": f"$counted.{name}"}, 0]} for name in ("document_count", "chunk_count")}
    return [{"$lookup": looked_up}, {"$set": counts}, {"$unset": "counted"}]


async def count_documents(database: Database) -> int:
    """Count the documents of all KBs of all organizations."""
    # Reads all rows: sixteen a KB, however many documents it has, and a cluster has search indexes for 1,250 KBs.
    rows = await database[NAME].aggregate([{"$group": {"_id": None, "documents": {"$sum": "$documents"}}}])
    return sum([row["documents"] async for row in rows])


async def delete(database: Database, session: MongoSession, key: KnowledgeBaseKey) -> None:
    await database[NAME].delete_many(_of_kb(key), session=session)


def _of_kb(key: KnowledgeBaseKey) -> Row:
    return {"organization_id": key.organization_id, "kb_id": key.kb_id}
