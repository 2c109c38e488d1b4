"""Requests for work: a job is opened before its command is published."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias
from uuid import uuid4

from pymongo import UpdateOne

from kb_contracts.commands import SyncDocument
from kb_shared.mongo.database import Database, upsert_all
from kb_shared.mongo.index_jobs.job import (
    NAME,
    PUBLISH_GRACE,
    SUSPECT_AFTER,
    UNCLAIMED_GRACE,
    IndexJobState,
    build_later_time,
    row_id,
)
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey


@dataclass(frozen=True, slots=True, eq=False)
class SyncRequest:
    """Commands that are requested together, for one reason."""

    commands: Collection[SyncDocument]
    traceparent: str
    occurred_at: datetime
    """Time of the event that requests it."""
    backfill_id: str | None = None
    """Id of the backfill that requests it, if one does."""
    queued: bool = False
    """True: the commands are published later, when their turn comes. Jobs that are in a lane already stay there."""


Opened: TypeAlias = Mapping[MembershipKey, str]
"""Tokens of jobs whose commands are to be published, by the document and KB of the job."""


async def request(database: Database, requests: Collection[SyncRequest]) -> dict[SyncRequest, Opened]:
    """Open a job for each command, or renew the open one: pending, with a new token and no attempts.

    A lease is not changed: the worker that holds it sees the new token at its end and gives the job back. A job keeps
    the `backfill_id` of the last backfill that requested it; requests by events don't change it.
    """
    opened: dict[SyncRequest, Opened] = {
        each: {_key(command): str(uuid4()) for command in each.commands} for each in requests
    }
    renewals = [_renewal(command, each, opened[each]) for each in requests for command in each.commands]
    if renewals:
        await upsert_all(database[NAME], renewals)
    return opened


async def note_published(database: Database, publications: Mapping[MembershipKey, str]) -> None:
    """Note that commands are published: they may wait in their lanes for `UNCLAIMED_GRACE`.

    Jobs that were claimed, requested again or taken as due since are not changed.

    Args:
        database: of the jobs.
        publications: ids of the publications that are done: the tokens of a request, the `publication` of a due job.
    """
    if not publications:
        return
    await database[NAME].update_many(
        {
            "_id": {"$in": [row_id(kb_id=key.kb_id, document_id=key.document_id) for key in publications]},
            "organization_id": {"$in": sorted({key.organization_id for key in publications})},
            "publication": {"$in": list(publications.values())},
            # A claim, its return and a postponement each set another time. The command of a row without `publish_by`,
            # of an older version, is published once more.
            "$expr": {"$eq": ["$next_attempt_at", "$publish_by"]},
        },
        [{"$set": {"next_attempt_at": build_later_time("$$NOW", UNCLAIMED_GRACE)}}],
    )


def _key(command: SyncDocument) -> MembershipKey:
    return MembershipKey(command.organization_id, command.kb_id, command.document_id)


def _renewal(command: SyncDocument, request: SyncRequest, opened: Opened) -> UpdateOne:
    key = _key(command)
    return UpdateOne(
        {"_id": row_id(kb_id=key.kb_id, document_id=key.document_id), "organization_id": key.organization_id},
        [
            {
                "$set": {
                    "kb_id": command.kb_id,
                    "document_id": {"$literal": command.document_id},
                    "state": IndexJobState.PENDING,
                    "reason": command.reason,
                    # An ordinary request does not cancel an earlier forced one.
                    "force": {"$or": [command.force, {"$ifNull": ["$force", False]}]},
                    "token": opened[key],
                    "publication": opened[key],
                    "attempts": 0,
                    # A suspect stays one: no new request lets it be indexed beside other documents before it succeeds.
                    "crashes": {"$min": [{"$ifNull": ["$crashes", 0]}, SUSPECT_AFTER]},
                    "alone": {"$ifNull": ["$alone", False]},
                    # The holder of a lease gives the job back. If it dies, the job is due when the lease ends.
                    "next_attempt_at": {
                        "$cond": [
                            {"$gt": ["$lease_until", "$$NOW"]},
                            "$lease_until",
                            build_later_time("$$NOW", PUBLISH_GRACE),
                        ]
                    },
                    "publish_by": build_later_time("$$NOW", PUBLISH_GRACE),
                    "in_lane": {"$or": [not request.queued, {"$ifNull": ["$in_lane", False]}]},
                    "queued": {"$and": [request.queued, {"$not": [{"$ifNull": ["$in_lane", False]}]}]},
                    "traceparent": request.traceparent,
                    "requested_at": "$$NOW",
                    # If the job was open already, the time of the earlier event counts.
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
                    # Its text may be another one.
                    "chunk_count": None,
                    "embedded_count": 0,
                    "backfill_id": request.backfill_id or {"$ifNull": ["$backfill_id", None]},
                    "lease_owner": {"$ifNull": ["$lease_owner", None]},
                    "lease_until": {"$ifNull": ["$lease_until", None]},
                }
            }
        ],
        upsert=True,
    )


async def unforce(database: Database, key: KnowledgeBaseKey, *, backfill_id: str) -> None:
    """Let jobs of a backfill that no worker has begun check for drift, instead of indexing in any case.

    They are not deleted, because an event may have requested the same document.
    """
    unbegun = {
        "organization_id": key.organization_id,
        "kb_id": key.kb_id,
        "backfill_id": backfill_id,
        "state": {"$in": [IndexJobState.PENDING, IndexJobState.PAUSED]},
        "lease_owner": None,
    }
    await database[NAME].update_many(unbegun, {"$set": {"force": False}})
