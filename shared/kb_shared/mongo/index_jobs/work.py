"""The steps of a worker with a job: claim it, extend its lease, and store its outcome."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import uuid4

from kb_contracts.commands import SyncDocument
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.index_jobs.job import NAME, ROWS, SUSPECT_AFTER, IndexJob, IndexJobState, milliseconds, row_id
from kb_shared.mongo.majority import seen_by_later_reads


async def claim_all(
    database: Database, commands: Collection[SyncDocument], *, owner: str, lease: timedelta
) -> dict[SyncDocument, IndexJob]:
    """Claim the jobs of `commands` for `lease`, on the server's clock.

    A job whose worker died keeps its number of attempts: the attempt crashed, it did not fail.

    Returns:
        Jobs by command. A job that is done, failed, waits for its text, or is held by another worker is absent.
    """
    wanted = {row_id(kb_id=command.kb_id, document_id=command.document_id): command for command in commands}
    of_commands = {
        "_id": {"$in": list(wanted)},
        "organization_id": {"$in": sorted({command.organization_id for command in commands})},
    }
    claim_id = str(uuid4())
    # Later majority reads for these jobs are no older than the events that requested them.
    async with seen_by_later_reads(database):
        claimed = await database[NAME].update_many(
            {
                **of_commands,
                "state": {"$in": [IndexJobState.PENDING, IndexJobState.RUNNING]},
                "$or": [{"lease_until": None}, {"lease_owner": owner}, {"$expr": {"$lt": ["$lease_until", "$$NOW"]}}],
                # A redelivered command must not use up an attempt.
                "$expr": {"$lte": [{"$ifNull": ["$postponed_until", "$$NOW"]}, "$$NOW"]},
            },
            [
                {
                    "$set": {
                        "state": IndexJobState.RUNNING,
                        "lease_owner": {"$literal": owner},
                        "lease_until": {"$add": ["$$NOW", milliseconds(lease)]},
                        "next_attempt_at": {"$add": ["$$NOW", milliseconds(lease)]},
                        "attempts": {"$max": [1, {"$add": ["$attempts", {"$cond": [_WAS_RELEASED, 1, 0]}]}]},
                        "crashes": {"$add": [{"$ifNull": ["$crashes", 0]}, {"$cond": [_has_crashed(owner), 1, 0]}]},
                        "alone": False,
                        "claim_id": claim_id,
                        "in_lane": True,
                        "queued": False,
                    }
                }
            ],
        )
    if claimed.modified_count == 0:
        return {}
    rows = database[NAME].find({**of_commands, "claim_id": claim_id})
    return {wanted[row["_id"]]: ROWS.read(row) async for row in rows}


_WAS_RELEASED: Row = {"$eq": ["$lease_owner", None]}
"""Condition that the previous worker reported how its attempt ended."""


def _has_crashed(owner: str) -> Row:
    """Build the condition that the holder of the lease died, and that this counts as a crash of the document."""
    died = {"$not": {"$in": ["$lease_owner", [None, {"$literal": owner}]]}}
    return {"$and": [died, {"$or": ["$alone", {"$lt": ["$crashes", SUSPECT_AFTER]}]}]}


async def note_alone(database: Database, job: IndexJob) -> None:
    """Note that the holder of the lease works on this job alone: if it dies now, this job is the cause."""
    await database[NAME].update_one(
        {
            "_id": row_id(kb_id=job.kb_id, document_id=job.document_id),
            "organization_id": job.organization_id,
            "lease_owner": job.lease_owner,
        },
        {"$set": {"alone": True}},
    )


async def note_embedded(database: Database, job: IndexJob, *, chunks: int, embedded: int) -> None:
    """Note how many chunks of the document have their vectors, unless another worker or request has the job now.

    The next attempt writes other numbers: nothing but what people see rests on them.
    """
    await database[NAME].update_one(
        {**_as_claimed(job), "lease_owner": job.lease_owner},
        {"$set": {"chunk_count": chunks, "embedded_count": embedded}},
    )


async def extend(database: Database, jobs: Sequence[IndexJob], *, owner: str, lease: timedelta) -> int:
    """Extend the leases of `jobs`; return how many the owner still holds."""
    if not jobs:
        return 0
    until = {"$add": ["$$NOW", milliseconds(lease)]}
    extended = await database[NAME].update_many(
        {
            "_id": {"$in": [row_id(kb_id=job.kb_id, document_id=job.document_id) for job in jobs]},
            "organization_id": {"$in": list({job.organization_id for job in jobs})},
            "lease_owner": owner,
        },
        [
            {
                "$set": {
                    "lease_until": until,
                    "next_attempt_at": until,
                }
            }
        ],
    )
    return extended.matched_count


async def finish(database: Database, job: IndexJob, session: MongoSession | None = None) -> bool:
    """Delete the job unless another request has come since it was claimed."""
    deleted = await database[NAME].delete_one(_as_claimed(job), session=session)
    return deleted.deleted_count == 1


async def give_back(database: Database, job: IndexJob, *, owner: str, uncount_attempt: bool = False) -> None:
    """Release the job, so that another worker can claim it, or this one for a request that came meanwhile."""
    await database[NAME].update_one(
        {
            "_id": row_id(kb_id=job.kb_id, document_id=job.document_id),
            "organization_id": job.organization_id,
            "lease_owner": owner,
        },
        [
            {
                "$set": {
                    "state": IndexJobState.PENDING,
                    "lease_owner": None,
                    "lease_until": None,
                    "next_attempt_at": "$$NOW",
                    "attempts": {"$max": [0, {"$subtract": ["$attempts", int(uncount_attempt)]}]},
                }
            }
        ],
    )


async def postpone(
    database: Database,
    job: IndexJob,
    *,
    delay: timedelta,
    error_type: str,
    error_message: str,
    count_attempt: bool = True,
) -> None:
    """Schedule the next attempt after `delay`; if another request came meanwhile, the job is due at once instead."""
    await _close_job(
        database,
        job,
        {
            "state": IndexJobState.PENDING,
            "attempts": job.attempts if count_attempt else job.attempts - 1,
            "next_attempt_at": {"$add": ["$$NOW", milliseconds(delay)]},
            "postponed_until": {"$add": ["$$NOW", milliseconds(delay)]},
            "error_type": error_type,
            "error_message": {"$literal": error_message},
        },
    )


async def fail(
    database: Database, job: IndexJob, session: MongoSession, *, error_type: str, error_message: str
) -> bool:
    """Set the job to failed; False if it was requested again meanwhile: the caller then gives the job back."""
    failed = await database[NAME].update_one(
        _as_claimed(job),
        {
            "$set": {
                "state": IndexJobState.FAILED,
                "next_attempt_at": None,
                "error_type": error_type,
                "error_message": error_message,
                "lease_owner": None,
                "lease_until": None,
                "in_lane": False,
            }
        },
        session=session,
    )
    return failed.matched_count == 1


async def pause(database: Database, job: IndexJob, session: MongoSession) -> bool:
    """Keep the job until its KB is resumed. The attempt does not count. False if it was requested again meanwhile."""
    fields: Row = {
        "state": IndexJobState.PAUSED,
        "attempts": job.attempts - 1,
        "next_attempt_at": None,
        "lease_owner": None,
        "lease_until": None,
        "in_lane": False,
    }
    paused = await database[NAME].update_one(_as_claimed(job), {"$set": fields}, session=session)
    return paused.matched_count == 1


async def wait_for_text(database: Database, job: IndexJob) -> None:
    await _close_job(
        database,
        job,
        {"state": IndexJobState.WAITING_FOR_TEXT, "attempts": 0, "next_attempt_at": None},
    )


async def _close_job(database: Database, job: IndexJob, fields: Row) -> None:
    closed = await database[NAME].update_one(
        _as_claimed(job), [{"$set": {**fields, "lease_owner": None, "lease_until": None, "in_lane": False}}]
    )
    if closed.matched_count == 0 and job.lease_owner is not None:
        await give_back(database, job, owner=job.lease_owner)


def _as_claimed(job: IndexJob) -> Row:
    """Build the filter for the row, provided that it was not requested again since the job was claimed."""
    return {
        "_id": row_id(kb_id=job.kb_id, document_id=job.document_id),
        "organization_id": job.organization_id,
        "token": job.token,
    }
