"""Queries for the open jobs of a document and of a KB."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo import ASCENDING

from kb_contracts.commands import Reason
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.index_jobs.job import NAME, ROWS, UNDONE, IndexJob, IndexJobState, row_id
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey

BACKLOG_LIMIT: Final = 200
"""Number of open jobs of a KB. Backfills and the reconciler request no more; commands of events beyond it take the bulk
lane."""

_WAITS_FOR_SOMEONE: Final = (
    "budget_exhausted",
    "unknown_price",
    "provider_key_missing",
    "provider_auth",
    "provider_quota",
    "provider_paused",
    "other_vectors",
)
"""Error types of jobs that wait until their organization changes a budget, key or address, or resumes a provider."""


_MOST_SUMMARIZED: Final = 100_000


@dataclass(frozen=True, slots=True)
class JobsInState:
    count: int
    oldest_at: datetime


@dataclass(frozen=True, slots=True)
class JobSummary:
    states: Mapping[IndexJobState, JobsInState]
    waiting: Mapping[str, int]
    """Number of pending jobs by the type of their last error."""
    is_exact: bool


async def find(database: Database, key: MembershipKey) -> IndexJob | None:
    row = await database[NAME].find_one(
        {"_id": row_id(kb_id=key.kb_id, document_id=key.document_id), "organization_id": key.organization_id}
    )
    return ROWS.read(row) if row else None


async def find_states(
    database: Database, organization_id: str, document_ids: Collection[str]
) -> dict[str, dict[str, IndexJobState]]:
    """Return the states of the jobs of documents: KB to state, by document. A document without jobs is absent."""
    rows = database[NAME].find(
        {"organization_id": organization_id, "document_id": {"$in": list(document_ids)}},
        {"document_id": 1, "kb_id": 1, "state": 1, "_id": 0},
    )
    found: dict[str, dict[str, IndexJobState]] = {}
    async for row in rows:
        found.setdefault(row["document_id"], {})[row["kb_id"]] = IndexJobState(row["state"])
    return found


async def find_errors(
    database: Database, organization_id: str, *, document_ids: Collection[str]
) -> dict[str, dict[str, tuple[str, str]]]:
    """Return the type and the message of the last error of jobs: KB to error, by document. Others are absent."""
    rows = database[NAME].find(
        {"organization_id": organization_id, "document_id": {"$in": list(document_ids)}, "error_type": {"$ne": None}},
        {"document_id": 1, "kb_id": 1, "error_type": 1, "error_message": 1, "_id": 0},
    )
    found: dict[str, dict[str, tuple[str, str]]] = {}
    async for row in rows:
        error = (row["error_type"], row.get("error_message") or "")
        found.setdefault(row["document_id"], {})[row["kb_id"]] = error
    return found


async def find_open_ids(database: Database, key: KnowledgeBaseKey, document_ids: Collection[str]) -> set[str]:
    """Return the `document_ids` with a job in the KB, whatever its state."""
    rows = database[NAME].find(
        {
            "_id": {"$in": [row_id(kb_id=key.kb_id, document_id=i) for i in document_ids]},
            "organization_id": key.organization_id,
        },
        {"document_id": 1},
    )
    return {row["document_id"] async for row in rows}


async def count_open(database: Database, key: KnowledgeBaseKey, *, limit: int = 0) -> int:
    """Count the pending and running jobs of a KB, up to `limit`; 0 means no limit."""
    query = {
        "organization_id": key.organization_id,
        "kb_id": key.kb_id,
        "state": {"$in": [IndexJobState.PENDING, IndexJobState.RUNNING]},
    }
    if limit:
        return await database[NAME].count_documents(query, limit=limit)
    return await database[NAME].count_documents(query)


def build_first_open_stage(organization_id: str) -> Row:
    """Build the stage of a query on KBs that adds an array with the first pending or running job of each, if any."""
    is_open = {
        "organization_id": organization_id,
        "state": {"$in": [IndexJobState.PENDING, IndexJobState.RUNNING]},
    }
    looked_up = {
        "from": NAME,
        "localField": "_id",
        "foreignField": "kb_id",
        "pipeline": [{"$match": is_open}, {"$limit": 1}, {"$project": {"_id": 1}}],
        "as": NAME,
    }
    return {"$lookup": looked_up}


async def is_any_open(
    database: Database, session: MongoSession, key: KnowledgeBaseKey, *, requested_by: datetime
) -> bool:
    """Return whether a KB has open jobs, paused or not, requested up to a time of the server's clock."""
    query = {
        "organization_id": key.organization_id,
        "kb_id": key.kb_id,
        "state": {"$in": list(UNDONE)},
        "requested_at": {"$lte": requested_by},
    }
    return await database[NAME].find_one(query, {"_id": 1}, session=session) is not None


async def count_failed_of(database: Database, organization_id: str, *, limit: int) -> int:
    """Count the failed jobs of all KBs of an organization, up to `limit`."""
    query = {"organization_id": organization_id, "state": IndexJobState.FAILED}
    return await database[NAME].count_documents(query, limit=limit)


async def count_all_open(database: Database, *, limit: int = 0) -> int:
    """Count the pending and running jobs of all KBs, up to `limit`; 0 means no limit."""
    query = {"state": {"$in": [IndexJobState.PENDING, IndexJobState.RUNNING]}}
    if limit:
        return await database[NAME].count_documents(query, limit=limit)
    return await database[NAME].count_documents(query)


async def count_by_state(database: Database) -> dict[IndexJobState, int]:
    """Count the jobs of all organizations in each state."""
    # Each count reads keys of an index only; a group would read all rows.
    return {state: await database[NAME].count_documents({"state": state}) for state in IndexJobState}


async def count_states_of_kb(database: Database, key: KnowledgeBaseKey) -> dict[IndexJobState, int]:
    """Count the jobs of a KB in each state; a state without jobs is absent."""
    # A worker whose lease has expired is not working any more.
    is_abandoned = {"$and": [{"$eq": ["$state", IndexJobState.RUNNING]}, {"$lt": ["$lease_until", "$$NOW"]}]}
    stages: list[Row] = [
        {"$match": {"organization_id": key.organization_id, "kb_id": key.kb_id}},
        {"$group": {"_id": {"$cond": [is_abandoned, IndexJobState.PENDING, "$state"]}, "jobs": {"$sum": 1}}},
    ]
    rows = await database[NAME].aggregate(stages)
    return {IndexJobState(row["_id"]): row["jobs"] async for row in rows}


async def summarize(database: Database, organization_id: str) -> JobSummary:
    """Count the jobs of an organization by state, and the pending ones by what they wait for."""
    stages: list[Row] = [
        {"$match": {"organization_id": organization_id}},
        {"$limit": _MOST_SUMMARIZED},
        {
            "$group": {
                "_id": {"state": "$state", "error_type": {"$ifNull": ["$error_type", None]}},
                "jobs": {"$sum": 1},
                "oldest_at": {"$min": "$requested_at"},
            }
        },
    ]
    states: dict[IndexJobState, JobsInState] = {}
    waiting: Counter[str] = Counter()
    async for row in await database[NAME].aggregate(stages):
        state, error_type, count = IndexJobState(row["_id"]["state"]), row["_id"]["error_type"], row["jobs"]
        known = states.get(state, JobsInState(0, row["oldest_at"]))
        states[state] = JobsInState(known.count + count, min(known.oldest_at, row["oldest_at"]))
        if state is IndexJobState.PENDING and error_type is not None:
            waiting[error_type] += count
    total = sum(each.count for each in states.values())
    return JobSummary(states, waiting, is_exact=total < _MOST_SUMMARIZED)


async def find_oldest_events(database: Database) -> dict[Reason, datetime]:
    """Return the time of the event of the oldest open job by reason; a reason without open jobs is absent.

    Jobs that wait for someone to raise a budget or to replace a key don't count.
    """
    first, *others = [_oldest_of(reason) for reason in Reason]
    united: list[Row] = [{"$unionWith": {"coll": NAME, "pipeline": stages}} for stages in others]
    rows = await database[NAME].aggregate([*first, *united])
    return {Reason(row["reason"]): row["occurred_at"] async for row in rows}


def _oldest_of(reason: Reason) -> list[Row]:
    # All of it is in one index, in this order: only keys are read, and only those before the first that counts.
    return [
        {
            "$match": {
                "state": {"$in": [IndexJobState.PENDING, IndexJobState.RUNNING]},
                "reason": reason,
                "error_type": {"$nin": list(_WAITS_FOR_SOMEONE)},
            }
        },
        {"$sort": {"occurred_at": ASCENDING}},
        {"$limit": 1},
        {"$project": {"_id": 0, "reason": 1, "occurred_at": 1}},
    ]


async def sample_in_states(
    database: Database, key: KnowledgeBaseKey, states: Collection[IndexJobState], *, at_most: int
) -> list[IndexJob]:
    """Return jobs of a KB that are in one of `states`: all of them, if they are not more than `at_most`."""
    query: Row = {"organization_id": key.organization_id, "kb_id": key.kb_id, "state": {"$in": list(states)}}
    return [ROWS.read(row) async for row in database[NAME].find(query).limit(at_most)]


async def find_in_states(
    database: Database,
    key: KnowledgeBaseKey,
    states: Collection[IndexJobState],
    *,
    after: str | None,
    limit: int,
) -> list[str]:
    """Return the documents of a KB whose job is in one of `states`, in the order of their ids."""
    query: Row = {"organization_id": key.organization_id, "kb_id": key.kb_id, "state": {"$in": list(states)}}
    if after is not None:
        query["document_id"] = {"$gt": after}
    rows = database[NAME].find(query, {"document_id": 1}).sort("document_id", ASCENDING).limit(limit)
    return [row["document_id"] async for row in rows]


async def count_failed(database: Database, key: KnowledgeBaseKey, *, session: MongoSession | None = None) -> int:
    query = {"organization_id": key.organization_id, "kb_id": key.kb_id, "state": IndexJobState.FAILED}
    return await database[NAME].count_documents(query, session=session)


async def count_of_backfill(
    database: Database, key: KnowledgeBaseKey, backfill_id: str, *, session: MongoSession | None = None
) -> tuple[int, int]:
    """Count the jobs that a backfill requested: (open or paused, failed)."""
    stages: list[Row] = [
        {"$match": {"organization_id": key.organization_id, "kb_id": key.kb_id, "backfill_id": backfill_id}},
        {"$group": {"_id": "$state", "jobs": {"$sum": 1}}},
    ]
    rows = await database[NAME].aggregate(stages, session=session)
    jobs = {row["_id"]: row["jobs"] async for row in rows}
    return sum(jobs.get(state, 0) for state in UNDONE), jobs.get(IndexJobState.FAILED, 0)


async def delete_of_kb(database: Database, key: KnowledgeBaseKey) -> None:
    await database[NAME].delete_many({"organization_id": key.organization_id, "kb_id": key.kb_id})
