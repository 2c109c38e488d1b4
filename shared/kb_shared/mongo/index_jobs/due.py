"""Jobs that are due, which the sweepers of all replicas share."""

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
)


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


async def make_all_due(database: Database) -> int:
    """Make every open job due, so that its command is published again: the broker has lost its messages."""
    with long_commands():
        changed = await database[NAME].update_many(
            {"state": {"$in": [IndexJobState.PENDING, IndexJobState.RUNNING]}},
            [{"$set": {"next_attempt_at": {"$max": ["$$NOW", "$postponed_until"]}}}],
        )
    return changed.modified_count
