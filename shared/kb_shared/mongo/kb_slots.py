"""`kb_slots`: 16 rows of each KB with its fence and its counters.

Each swap and removal writes the slot of its document, on the condition that the KB is live and has the tags that the
decision was made for; a swap also on the condition that the KB is not paused. Deleting, retagging, pausing and resuming
a KB first block swaps on all slots, then write them. With one row instead of 16, swaps wait for each other: 64
concurrent swaps reached 9 documents/s.
"""

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import pymongo
from pymongo import ASCENDING, IndexModel, InsertOne

from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey
from kb_shared.mongo.rows import RowMapper

NAME = "kb_slots"
INDEXES = [IndexModel([("kb_id", ASCENDING)])]
SLOTS_PER_KB = 16
BLOCKED_FOR: Final = timedelta(seconds=3)

# A slot that was never blocked has no time, which compares as less than any time.
_IS_NOT_BLOCKED: Final[Row] = {"$expr": {"$lt": ["$closed_until", "$$NOW"]}}
_NOT_PAUSED: Final[Row] = {"paused": {"$ne": True}}


def row_id(*, kb_id: str, document_id: str) -> str:
    slot = hashlib.sha256(document_id.encode()).digest()[0] % SLOTS_PER_KB
    return f"{kb_id}/{slot}"


async def create(database: Database, session: MongoSession, key: KnowledgeBaseKey, *, tags_version: int) -> None:
    await database[NAME].bulk_write(
        [
            InsertOne(
                {
                    "_id": f"{key.kb_id}/{slot}",
                    "kb_id": key.kb_id,
                    "organization_id": key.organization_id,
                    "state": "live",
                    "tags_version": tags_version,
                    "documents": 0,
                    "chunks": 0,
                }
            )
            for slot in range(SLOTS_PER_KB)
        ],
        session=session,
    )


async def fence_knowledge_base(
    database: Database,
    session: MongoSession,
    key: MembershipKey,
    *,
    tags_version: int,
    documents: int,
    chunks: int,
    even_if_paused: bool = False,
) -> bool:
    """Add to the counters if the KB is live with the tags of `tags_version` and swaps are not blocked.

    Args:
        even_if_paused: for removals, which go on in a paused KB.
    Returns:
        False means abort: the KB has changed since the decision, or is about to change.
    """
    written = await database[NAME].update_one(
        {
            "_id": row_id(kb_id=key.kb_id, document_id=key.document_id),
            "organization_id": key.organization_id,
            "state": "live",
            "tags_version": tags_version,
            **({} if even_if_paused else _NOT_PAUSED),
            **_IS_NOT_BLOCKED,
        },
        # A write that changes nothing conflicts with nothing, so it would not be a fence. `writes` always changes.
        {"$inc": {"documents": documents, "chunks": chunks, "writes": 1}},
        session=session,
    )
    return written.matched_count == 1


async def fence_paused(database: Database, session: MongoSession, key: MembershipKey) -> bool:
    """Return whether the KB is paused, and stays so until the transaction of `session` ends. False means abort."""
    written = await database[NAME].update_one(
        {
            "_id": row_id(kb_id=key.kb_id, document_id=key.document_id),
            "organization_id": key.organization_id,
            "paused": True,
            **_IS_NOT_BLOCKED,
        },
        {"$inc": {"writes": 1}},
        session=session,
    )
    return written.matched_count == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCounters:
    """Counters of one KB slot."""

    slot_id: str
    documents: int
    chunks: int
    writes: int = 0
    """Number of swaps and removals; a change of it shows that the others may have changed."""


_COUNTERS: Final = RowMapper(SlotCounters, names={"slot_id": "_id"})


async def read_counters(database: Database, session: MongoSession, key: KnowledgeBaseKey) -> list[SlotCounters]:
    return [_COUNTERS.read(row) async for row in database[NAME].find(_of_kb(key), session=session)]


async def correct_counters(database: Database, key: KnowledgeBaseKey, counters: SlotCounters) -> bool:
    """Set documents and chunks of a slot; return False if it was written since `counters` were read."""
    written = await database[NAME].update_one(
        {
            "_id": counters.slot_id,
            **_of_kb(key),
            # A slot that no swap has written has no such field.
            "writes": counters.writes or {"$in": [0, None]},
        },
        {"$set": {"documents": counters.documents, "chunks": counters.chunks}, "$inc": {"writes": 1}},
    )
    return written.matched_count == 1


async def block_swaps(database: Database, key: KnowledgeBaseKey) -> None:
    """Block new swaps and wait for those in progress, so that a transaction on all slots meets no conflict.

    Otherwise the transaction conflicts with the swaps of a busy KB in attempt after attempt: a single write waits for a
    lock in the server, a write in a transaction fails at once. The write to all slots ends the block. After a crash or
    an aborted transaction it ends by itself after `BLOCKED_FOR`.

    Raises:
        NetworkTimeout, ExecutionTimeout: a swap was in progress for longer than `BLOCKED_FOR`.
    """
    until = {"$add": ["$$NOW", int(BLOCKED_FOR.total_seconds() * 1000)]}
    # A longer wait is useless: the block on the first slots would have ended.
    with pymongo.timeout(BLOCKED_FOR.total_seconds()):
        await database[NAME].update_many(_of_kb(key), [{"$set": {"closed_until": until}}])


async def set_tags_version(
    database: Database, session: MongoSession, key: KnowledgeBaseKey, *, tags_version: int
) -> None:
    """Make swaps that were decided for the old tags fail from the commit on. Call `block_swaps` first."""
    await _write_all(database, session, key, fields={"tags_version": tags_version})


async def set_paused(database: Database, session: MongoSession, key: KnowledgeBaseKey, *, paused: bool) -> None:
    """Make swaps of this KB fail, or succeed again, from the commit on. Call `block_swaps` first."""
    await _write_all(database, session, key, fields={"paused": paused})


async def close(database: Database, session: MongoSession, key: KnowledgeBaseKey) -> None:
    """Make all swaps of this KB fail from the commit on. Call `block_swaps` first."""
    await _write_all(database, session, key, fields={"state": "deleting"})


async def _write_all(database: Database, session: MongoSession, key: KnowledgeBaseKey, *, fields: Row) -> None:
    await database[NAME].update_many(_of_kb(key), {"$set": {**fields, "closed_until": None}}, session=session)


async def sum_counters(database: Database, organization_id: str, *, kb_ids: list[str]) -> dict[str, tuple[int, int]]:
    """Return (documents, live chunks) of each KB."""
    stages = [
        {"$match": {"kb_id": {"$in": kb_ids}, "organization_id": organization_id}},
        {"$group": {"_id": "$kb_id", "documents": {"$sum": "$documents"}, "chunks": {"$sum": "$chunks"}}},
    ]
    rows = await database[NAME].aggregate(stages)
    return {row["_id"]: (row["documents"], row["chunks"]) async for row in rows}


def build_count_stages() -> list[Row]:
    """Build the stages of a query on KBs that add `document_count` and `chunk_count` to each."""
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
    # Reads all rows: 16 for each KB, whatever its size, and a cluster has search indexes for at most 1,250 KBs.
    rows = await database[NAME].aggregate([{"$group": {"_id": None, "documents": {"$sum": "$documents"}}}])
    return sum([row["documents"] async for row in rows])


async def sum_writes(database: Database) -> dict[str, int]:
    """Return the number of swaps and removals so far, by KB, of all organizations."""
    # Reads all rows, as `count_documents` does.
    rows = await database[NAME].aggregate([{"$group": {"_id": "$kb_id", "writes": {"$sum": "$writes"}}}])
    return {row["_id"]: row["writes"] async for row in rows}


async def delete(database: Database, session: MongoSession, key: KnowledgeBaseKey) -> None:
    await database[NAME].delete_many(_of_kb(key), session=session)


def _of_kb(key: KnowledgeBaseKey) -> Row:
    return {"organization_id": key.organization_id, "kb_id": key.kb_id}


async def delete_of_organization(database: Database, organization_id: str) -> int:
    """Delete the slots of an organization that has no KBs any more; return their number."""
    return (await database[NAME].delete_many({"organization_id": organization_id})).deleted_count
