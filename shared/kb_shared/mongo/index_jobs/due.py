"""Jobs whose time has come, and the sweepers that share them."""

from collections.abc import Collection

from pymongo import ASCENDING, ReturnDocument, UpdateOne

from kb_shared.mongo.database import Database, long_commands
from kb_shared.mongo.index_jobs.job import (
    NAME,
    PUBLISH_GRACE,
    ROWS,
    UNCLAIMED_GRACE,
    IndexJob,
    IndexJobState,
    milliseconds,
    row_id,
)


async def take_due(database: Database, *, limit: int) -> list[IndexJob]:
    """Jobs whose time has come by the server's clock, each given to one caller, who says when they are `published`."""
    due: list[IndexJob] = []
    while len(due) < limit:
        row = await database[NAME].find_one_and_update(
            {
                "state": {"$in": [IndexJobState.PENDING, IndexJobState.RUNNING]},
                "$expr": {"$lte": ["$next_attempt_at", "$$NOW"]},
                "$or": [{"lease_until": None}, {"$expr": {"$lt": ["$lease_until", "$$NOW"]}}],
            },
            [
                {
                    "$set": {
                        "state": IndexJobState.PENDING,
                        "next_attempt_at": {"$add": ["$$NOW", milliseconds(PUBLISH_GRACE)]},
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


async def published(database: Database, jobs: Collection[IndexJob]) -> None:
    """The commands of `jobs`, as `take_due` gave them, wait in their lanes. What became of one already stays."""
    if jobs:
        later = {"$set": {"next_attempt_at": {"$add": ["$$NOW", milliseconds(UNCLAIMED_GRACE)]}}}
        await database[NAME].bulk_write(
            [
                UpdateOne(
                    {"_id": row_id(job.kb_id, job.document_id), "next_attempt_at": job.next_attempt_at},
                    [later],
                )
                for job in jobs
            ],
            ordered=False,
        )


async def make_due(database: Database, organization_id: str, *, error_type: str, kb_id: str | None = None) -> None:
    """Try at once what was postponed for `error_type`, in one KB or all: its cause is fixed."""
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
    """After the broker lost its messages: publish every open job again."""
    with long_commands():
        changed = await database[NAME].update_many(
            {"state": {"$in": [IndexJobState.PENDING, IndexJobState.RUNNING]}},
            [{"$set": {"next_attempt_at": {"$max": ["$$NOW", "$postponed_until"]}}}],
        )
    return changed.modified_count
