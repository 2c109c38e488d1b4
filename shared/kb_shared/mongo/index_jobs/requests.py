"""Asking for work: who sends a command opens its job first."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias
from uuid import uuid4

from pymongo import UpdateOne

from kb_contracts.commands import SyncDocument
from kb_shared.mongo.database import Database, Row, upsert_all
from kb_shared.mongo.index_jobs.job import (
    NAME,
    PUBLISH_GRACE,
    SUSPECT_AFTER,
    UNCLAIMED_GRACE,
    IndexJobState,
    milliseconds,
    row_id,
)
from kb_shared.mongo.keys import KnowledgeBaseKey


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Somebody's wish that documents be brought to what they should be."""

    commands: Collection[SyncDocument]
    traceparent: str
    occurred_at: datetime
    """The time of the event that asks."""
    backfill_id: str | None = None
    """Id of the backfill that requests it, if one does."""


Opened: TypeAlias = Mapping[str, str]
"""The tokens of jobs that were opened or renewed, by the id of their row."""


async def request(database: Database, requests: Collection[Request]) -> dict[Request, Opened]:
    """Open a job for each command, or renew the open one: pending, a new token, no attempts yet.

    The lease of somebody at work is left alone: seeing another token, that worker gives the job back. A job stays the
    `backfill_id`'s that asked for it, whoever asks after that, until another backfill does.
    """
    opened: dict[Request, Opened] = {
        each: {row_id(command.kb_id, command.document_id): str(uuid4()) for command in each.commands}
        for each in requests
    }
    renewals = [_renewal(command, each, opened[each]) for each in requests for command in each.commands]
    if renewals:
        await upsert_all(database[NAME], renewals)
    return opened


async def note_published(database: Database, organization_id: str, opened: Opened) -> None:
    """Note that the commands of new jobs are published: they may wait in their lanes for `UNCLAIMED_GRACE`.

    Jobs that somebody has begun since, or asked for again, stay as they are.
    """
    await database[NAME].update_many(
        {
            "_id": {"$in": list(opened)},
            "organization_id": organization_id,
            "token": {"$in": list(opened.values())},
            # Whoever claims a job, gives it back or postpones it sets another time.
            "$expr": {"$eq": ["$next_attempt_at", _later("$requested_at", PUBLISH_GRACE)]},
        },
        [{"$set": {"next_attempt_at": _later("$$NOW", UNCLAIMED_GRACE)}}],
    )


def _renewal(command: SyncDocument, request: Request, opened: Opened) -> UpdateOne:
    job_id = row_id(command.kb_id, command.document_id)
    return UpdateOne(
        {"_id": job_id, "organization_id": command.organization_id},
        [
            {
                "$set": {
                    "kb_id": command.kb_id,
                    "document_id": {"$literal": command.document_id},
                    "state": IndexJobState.PENDING,
                    "reason": command.reason,
                    # A forced request is not forgotten because an ordinary one came after it.
                    "force": {"$or": [command.force, {"$ifNull": ["$force", False]}]},
                    "token": opened[job_id],
                    "attempts": 0,
                    # Suspect it stays: whoever asks again, it is not let near others before it has been done once.
                    "crashes": {"$min": [{"$ifNull": ["$crashes", 0]}, SUSPECT_AFTER]},
                    "alone": {"$ifNull": ["$alone", False]},
                    # Whoever holds the lease gives the job back; should it die, the job is due with the lease's end.
                    "next_attempt_at": {
                        "$cond": [
                            {"$gt": ["$lease_until", "$$NOW"]},
                            "$lease_until",
                            _later("$$NOW", PUBLISH_GRACE),
                        ]
                    },
                    "traceparent": request.traceparent,
                    "requested_at": "$$NOW",
                    # Of work that has been open since an earlier event, the earlier time counts.
                    "occurred_at": {
                        "$cond": [
                            {"$in": ["$state", [IndexJobState.PENDING, IndexJobState.RUNNING, IndexJobState.PAUSED]]},
                            "$occurred_at",
                            request.occurred_at,
                        ]
                    },
                    "error_type": None,
                    "error_message": None,
                    "postponed_until": None,
                    "backfill_id": request.backfill_id or {"$ifNull": ["$backfill_id", None]},
                    "lease_owner": {"$ifNull": ["$lease_owner", None]},
                    "lease_until": {"$ifNull": ["$lease_until", None]},
                }
            }
        ],
        upsert=True,
    )


def _later(time: str, by: timedelta) -> Row:
    return {"$add": [time, milliseconds(by)]}


async def unforce(database: Database, key: KnowledgeBaseKey, *, backfill_id: str) -> None:
    """Let jobs of a backfill that nobody has begun look whether anything is to be done, instead of doing it anyway.

    They are not deleted: an event may have asked for the same document.
    """
    unbegun = {
        "organization_id": key.organization_id,
        "kb_id": key.kb_id,
        "backfill_id": backfill_id,
        "state": {"$in": [IndexJobState.PENDING, IndexJobState.PAUSED]},
        "lease_owner": None,
    }
    await database[NAME].update_many(unbegun, {"$set": {"force": False}})
