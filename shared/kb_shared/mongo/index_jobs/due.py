"""Jobs that are due, which the sweepers of all replicas share."""

from datetime import timedelta
from typing import Final
from uuid import uuid4

from pymongo import ASCENDING, ReturnDocument

from kb_shared.mongo.database import Database, long_commands
from kb_shared.mongo.index_jobs.job import (
    NAME,
    PUBLISH_GRACE,
    ROWS,
    IndexJob,
    IndexJobState,
    build_later_time,
    row_id,
)
from kb_shared.mongo.keys import MembershipKey

STUCK_AFTER: Final = timedelta(minutes=10)
"""Time after which a job that is due and that no sweeper takes is stuck."""
LONGEST_LEASE: Final = timedelta(days=1)
"""Length that no lease has: a later end is a fault."""
_NO_LEASE: Final = {"lease_owner": None, "lease_until": None}


async def take_due(database: Database, *, limit: int) -> list[IndexJob]:
    """Take jobs that are due by the server's clock; each is given to one caller.

    The caller publishes their commands and calls `note_published`. After a crash, they are due again after
    `PUBLISH_GRACE`.
    """
    due: list[IndexJob] = []
    while len(due) < limit:
        row = await database[NAME].find_one_and_update(
            {
                "state": {"$in": [IndexJobState.PENDING, IndexJobState.RUNNING]},
                "queued": {"$ne": True},
                "$expr": {"$lte": ["$next_attempt_at", "$$NOW"]},
                "$or": [{"lease_until": None}, {"$expr": {"$lt": ["$lease_until", "$$NOW"]}}],
            },
            [
                {
                    "$set": {
                        "state": IndexJobState.PENDING,
                        "next_attempt_at": build_later_time("$$NOW", PUBLISH_GRACE),
                        "publish_by": build_later_time("$$NOW", PUBLISH_GRACE),
                        # A note of an earlier publication does not count for this one.
                        "publication": str(uuid4()),
                        "in_lane": True,
                    }
                }
            ],
            sort=[("next_attempt_at", ASCENDING)],
            return_document=ReturnDocument.AFTER,
        )
        if row is None:
            break
        due.append(ROWS.read(row))
    return due


async def make_due(database: Database, organization_id: str, *, error_type: str, kb_id: str | None = None) -> None:
    """Let jobs that were postponed for `error_type` be retried at once, in one KB or all: the cause is fixed."""
    postponed = {
        "organization_id": organization_id,
        "state": IndexJobState.PENDING,
        "error_type": error_type,
        "lease_owner": None,
        **({} if kb_id is None else {"kb_id": kb_id}),
    }
    now = {"next_attempt_at": "$$NOW", "postponed_until": None}
    await database[NAME].update_many(postponed, [{"$set": now}])


async def find_stuck(database: Database, *, limit: int) -> list[MembershipKey]:
    """Return open jobs that no sweeper has taken for `STUCK_AFTER`, or whose lease ends later than any lease does."""
    overdue = build_later_time("$next_attempt_at", STUCK_AFTER)
    expired = build_later_time("$lease_until", STUCK_AFTER)
    rows = (
        database[NAME]
        .find(
            {
                "state": {"$in": [IndexJobState.PENDING, IndexJobState.RUNNING]},
                "queued": {"$ne": True},
                "$or": [
                    {
                        "$expr": {"$lt": [overdue, "$$NOW"]},
                        "$or": [{"lease_until": None}, {"$expr": {"$lt": [expired, "$$NOW"]}}],
                    },
                    {"$expr": {"$gt": ["$lease_until", build_later_time("$$NOW", LONGEST_LEASE)]}},
                ],
            },
            {"organization_id": 1, "kb_id": 1, "document_id": 1},
        )
        .limit(limit)
    )
    return [MembershipKey(row["organization_id"], row["kb_id"], row["document_id"]) async for row in rows]


async def release_stuck(database: Database, key: MembershipKey) -> bool:
    """Make a job due that no worker has a valid lease on; False if a worker has taken it meanwhile."""
    later = build_later_time("$$NOW", LONGEST_LEASE)
    released = await database[NAME].update_one(
        {
            "_id": row_id(kb_id=key.kb_id, document_id=key.document_id),
            "organization_id": key.organization_id,
            "state": {"$in": [IndexJobState.PENDING, IndexJobState.RUNNING]},
            "$or": [
                {"lease_until": None},
                {"$expr": {"$lt": ["$lease_until", "$$NOW"]}},
                {"$expr": {"$gt": ["$lease_until", later]}},
            ],
        },
        [{"$set": {"state": IndexJobState.PENDING, "next_attempt_at": "$$NOW", **_NO_LEASE}}],
    )
    return released.matched_count == 1


async def make_all_due(database: Database) -> int:
    """Make every open job due, so that its command is published again: the broker has lost its messages."""
    with long_commands():
        changed = await database[NAME].update_many(
            {"state": {"$in": [IndexJobState.PENDING, IndexJobState.RUNNING]}},
            [{"$set": {"next_attempt_at": {"$max": ["$$NOW", "$postponed_until"]}}}],
        )
    return changed.modified_count
