"""`source_runs`: runs of sources, from the request to the end. A runner holds a lease on a run while it works.

A source has at most one run that has not ended: such a run has the field `open_source`, which is unique.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument
from pymongo.errors import DuplicateKeyError

from kb_knowledge.store.keys import SourceKey, SourceRunKey
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.majority import seen_by_later_reads
from kb_shared.mongo.rows import RowMapper

NAME = "source_runs"
MAX_MESSAGES: Final = 100
KEPT: Final = timedelta(days=90)
PREVIEWS_KEPT: Final = timedelta(hours=1)
INDEXES = [
    IndexModel([("open_source", ASCENDING)], unique=True, partialFilterExpression={"open_source": {"$exists": True}}),
    IndexModel([("organization_id", ASCENDING), ("source_id", ASCENDING), ("_id", DESCENDING)]),
    # For runners, of all organizations.
    IndexModel([("status", ASCENDING), ("_id", ASCENDING)]),
    IndexModel([("expires_at", ASCENDING)], expireAfterSeconds=0),
]


class SourceRunStatus(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    OK = "ok"
    PARTIAL = "partial"
    """Some items failed or were left out. What came is kept."""
    ERROR = "error"
    """Nothing was read."""


_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
OPEN: Final = (SourceRunStatus.WAITING, SourceRunStatus.RUNNING)


class RunTrigger(StrEnum):
    MANUAL = "manual"
    SCHEDULE = "schedule"
    PREVIEW = "preview"
    """Nothing is stored of what it reads but the beginning, for an hour."""


class SourceIsRunning(Exception):
    """The source has a run that has not ended."""


@dataclass(frozen=True, slots=True)
class SourceRun:
    run_id: str
    organization_id: str
    source_id: str
    trigger: RunTrigger
    status: SourceRunStatus
    requested_at: datetime
    requested_by: str | None = None
    """API key; None for the schedule."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    claims: int = 0
    """Number of runners that have begun or continued it."""
    cancel_requested: bool = False
    cancelled: bool = False
    error: str | None = None
    """Why it is not `ok`, in words."""
    counts: Mapping[str, int] | None = None
    """Number of items by outcome."""
    removed: int = 0
    """Number of entries that were deleted, because their items are gone."""
    withheld: int = 0
    """Number of entries that stay although their items are gone, because they are too many."""
    warnings: int = 0
    """Number of items whose text has a warning."""
    bytes_read: int = 0
    messages: tuple[str, ...] = ()
    preview: tuple[Mapping[str, Any], ...] = ()

    @property
    def key(self) -> SourceRunKey:
        return SourceRunKey(self.organization_id, self.source_id, self.run_id)


_ROWS: Final = RowMapper(
    SourceRun,
    names={"run_id": "_id"},
    convert={"trigger": RunTrigger, "status": SourceRunStatus, "messages": tuple, "preview": tuple},
)


async def request(
    database: Database,
    session: MongoSession | None,
    source: SourceKey,
    *,
    trigger: RunTrigger,
    requested_by: str | None,
) -> SourceRun:
    """Store a run for a runner to begin.

    Raises:
        SourceIsRunning: there is one already, unless it is for a preview. Ends the transaction of `session`.
    """
    run = SourceRun(
        run_id=str(ObjectId()),
        organization_id=source.organization_id,
        source_id=source.source_id,
        trigger=trigger,
        status=SourceRunStatus.WAITING,
        requested_at=datetime.now(UTC),
        requested_by=requested_by,
    )
    row: Row = {
        **run.key.to_query(),
        "trigger": run.trigger,
        "status": run.status,
        "requested_at": run.requested_at,
        "requested_by": requested_by,
        "lease_owner": None,
        "lease_until": None,
    }
    if trigger is RunTrigger.PREVIEW:
        row["expires_at"] = run.requested_at + PREVIEWS_KEPT
    else:
        row["open_source"] = f"{source.organization_id}/{source.source_id}"
    try:
        await database[NAME].insert_one(row, session=session)
    except DuplicateKeyError:
        raise SourceIsRunning from None
    return run


async def find(database: Database, key: SourceRunKey, *, session: MongoSession | None = None) -> SourceRun | None:
    row = await database[NAME].find_one(key.to_query(), session=session)
    return None if row is None else _ROWS.read(row)


async def is_open(database: Database, key: SourceKey, *, session: MongoSession | None = None) -> bool:
    """Return whether the source has a run that has not ended."""
    query = {"open_source": f"{key.organization_id}/{key.source_id}", "organization_id": key.organization_id}
    return await database[NAME].find_one(query, {"_id": 1}, session=session) is not None


async def find_page(database: Database, key: SourceKey, *, skip: int, limit: int) -> tuple[list[SourceRun], int]:
    """Return a page of the runs of a source, newest first, and their total number; no previews."""
    query = {
        "organization_id": key.organization_id,
        "source_id": key.source_id,
        "trigger": {"$ne": RunTrigger.PREVIEW},
    }
    rows = database[NAME].find(query).sort("_id", DESCENDING).skip(skip).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)


WORK: Final[Sequence[Row]] = (
    {"operationType": "insert"},
    {"updateDescription.updatedFields.lease_owner": {"$type": "null"}},
)
"""Changes after which a run may be waiting for a runner."""
RUNS: Final = (RunTrigger.MANUAL, RunTrigger.SCHEDULE)
PREVIEWS: Final = (RunTrigger.PREVIEW,)


async def claim(
    database: Database, *, owner: str, lease: timedelta, triggers: Sequence[RunTrigger] = (*RUNS, *PREVIEWS)
) -> SourceRun | None:
    """Lease the oldest run with one of `triggers` that no runner works on."""
    async with seen_by_later_reads(database):
        row = await database[NAME].find_one_and_update(
            {
                "status": {"$in": OPEN},
                "trigger": {"$in": list(triggers)},
                "$or": [{"lease_until": None}, {"$expr": {"$lt": ["$lease_until", "$$NOW"]}}],
            },
            [
                {
                    "$set": {
                        "status": SourceRunStatus.RUNNING,
                        "started_at": {"$ifNull": ["$started_at", "$$NOW"]},
                        "claims": {"$add": [{"$ifNull": ["$claims", 0]}, 1]},
                        **_lease(owner, lease),
                    }
                }
            ],
            sort=[("_id", ASCENDING)],
            return_document=ReturnDocument.AFTER,
        )
    return None if row is None else _ROWS.read(row)


async def renew(database: Database, run: SourceRun, *, owner: str, lease: timedelta) -> SourceRun | None:
    """Extend the lease and return the run as it is now; None if another runner has taken it or it has ended."""
    row = await database[NAME].find_one_and_update(
        _held(run, owner), [{"$set": _lease(owner, lease)}], return_document=ReturnDocument.AFTER
    )
    return None if row is None else _ROWS.read(row)


@dataclass(frozen=True, slots=True)
class OpenRuns:
    """Number of runs and previews of all organizations that have not ended."""

    waiting: int = 0
    """Runs that no runner works on."""
    running: int = 0
    oldest_waiting_s: float = 0.0


async def count_open(database: Database) -> OpenRuns:
    """Count the runs that have not ended, and find out how long the oldest has waited for a runner."""
    is_held = {"$gte": [{"$ifNull": ["$lease_until", _LONG_AGO]}, "$$NOW"]}
    since = {"$ifNull": ["$lease_until", "$requested_at"]}
    waited_s = {"$divide": [{"$subtract": ["$$NOW", since]}, 1000]}
    stages: list[Row] = [
        {"$match": {"status": {"$in": OPEN}}},
        {
            "$group": {
                "_id": None,
                "all": {"$sum": 1},
                "running": {"$sum": {"$cond": [is_held, 1, 0]}},
                "oldest_s": {"$max": {"$cond": [is_held, 0, waited_s]}},
            }
        },
    ]
    async for row in await database[NAME].aggregate(stages):
        return OpenRuns(row["all"] - row["running"], row["running"], max(row["oldest_s"], 0.0))
    return OpenRuns()


async def release(database: Database, run: SourceRun, *, owner: str) -> None:
    """Let any runner continue the run."""
    await database[NAME].update_one(_held(run, owner), {"$set": {"lease_owner": None, "lease_until": None}})


async def add_message(database: Database, run: SourceRun, message: str) -> None:
    """Keep a message, if the run has fewer than 100."""
    change = {"$push": {"messages": {"$each": [message], "$slice": MAX_MESSAGES}}}
    await database[NAME].update_one(run.key.to_query(), change)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """End of a run."""

    status: SourceRunStatus
    error: str | None
    counts: Mapping[str, int]
    bytes_read: int
    removed: int = 0
    withheld: int = 0
    warnings: int = 0
    cancelled: bool = False
    preview: tuple[Mapping[str, Any], ...] = ()


async def finish(database: Database, session: MongoSession, run: SourceRun, *, end: RunEnd, owner: str) -> bool:
    """Store the end of a run. False if another runner has taken it."""
    fields: Row = {
        "status": end.status,
        "error": end.error,
        "counts": dict(end.counts),
        "bytes_read": end.bytes_read,
        "removed": end.removed,
        "withheld": end.withheld,
        "warnings": end.warnings,
        "cancelled": end.cancelled,
        "preview": list(end.preview),
        "finished_at": "$$NOW",
        "lease_owner": None,
        "lease_until": None,
        "expires_at": {"$add": ["$$NOW", int(_retention_of(run).total_seconds() * 1000)]},
    }
    literal = ("error", "counts", "preview")
    change: list[Row] = [
        {"$set": {name: {"$literal": value} if name in literal else value for name, value in fields.items()}},
        {"$unset": "open_source"},
    ]
    finished = await database[NAME].update_one(_held(run, owner), change, session=session)
    return finished.matched_count == 1


def _retention_of(run: SourceRun) -> timedelta:
    return PREVIEWS_KEPT if run.trigger is RunTrigger.PREVIEW else KEPT


async def request_cancel(
    database: Database, key: SourceRunKey, *, session: MongoSession | None = None
) -> SourceRun | None:
    """End a run that no runner has begun, or ask the runner to end it; return the run, None if it has ended."""
    row = await database[NAME].find_one_and_update(
        {**key.to_query(), "status": SourceRunStatus.WAITING},
        [
            {
                "$set": {
                    "status": SourceRunStatus.PARTIAL,
                    "cancelled": True,
                    "error": "it was cancelled before it began",
                    "finished_at": "$$NOW",
                    "expires_at": {"$add": ["$$NOW", int(KEPT.total_seconds() * 1000)]},
                }
            },
            {"$unset": "open_source"},
        ],
        session=session,
        return_document=ReturnDocument.AFTER,
    )
    if row is None:
        row = await database[NAME].find_one_and_update(
            {**key.to_query(), "status": SourceRunStatus.RUNNING},
            {"$set": {"cancel_requested": True}},
            session=session,
            return_document=ReturnDocument.AFTER,
        )
    return None if row is None else _ROWS.read(row)


async def delete_of_source(database: Database, session: MongoSession, key: SourceKey) -> None:
    query = {"organization_id": key.organization_id, "source_id": key.source_id}
    await database[NAME].delete_many(query, session=session)


def _held(run: SourceRun, owner: str) -> Row:
    return {**run.key.to_query(), "status": SourceRunStatus.RUNNING, "lease_owner": owner}


def _lease(owner: str, lease: timedelta) -> Row:
    return {
        "lease_owner": {"$literal": owner},
        "lease_until": {"$add": ["$$NOW", int(lease.total_seconds() * 1000)]},
    }
