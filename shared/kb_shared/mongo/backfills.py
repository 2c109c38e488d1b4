"""`backfills`: stored jobs on the documents of a KB. Each requests work on some documents at a time.

    scan           of a new KB, or one whose tags or limits changed
    reindex        every document again, with or without drift
    retry_failed   documents that failed
    resume         documents whose jobs were kept while the KB was paused

A scan goes through the documents with one of the KB's tags, through the indexed documents (some may have to be
removed), and through the jobs that failed or wait for a text (the cause may have changed). With its cursor and lease,
another worker continues a backfill after a crash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument

from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.majority import seen_by_later_reads
from kb_shared.mongo.rows import RowMapper

NAME = "backfills"
WORK: Final[Sequence[Row]] = ({"operationType": {"$in": ["insert", "replace", "update"]}},)
"""Changes after which a backfill may have something to do."""
INDEXES = [
    IndexModel([("state", ASCENDING)]),
    IndexModel([("organization_id", ASCENDING), ("kb_id", ASCENDING)]),
    IndexModel([("organization_id", ASCENDING), ("_id", DESCENDING)]),
]


STUCK_AFTER: Final = timedelta(minutes=10)
"""Time after which a running backfill that no worker continues is stuck."""
_LONGEST_LEASE_END: Final = {"$add": ["$$NOW", 24 * 3_600_000]}
"""Time by which every lease ends; a later end is a fault."""


class Kind(StrEnum):
    SCAN = "scan"
    REINDEX = "reindex"
    RETRY_FAILED = "retry_failed"
    RESUME = "resume"


class Phase(StrEnum):
    """Phase of a backfill: the documents that it goes through."""

    DOCUMENTS = "documents"
    INDEXED = "indexed"
    RESTING = "resting"
    FAILED = "failed"
    PAUSED = "paused"


PHASES: Final[Mapping[Kind, tuple[Phase, ...]]] = {
    Kind.SCAN: (Phase.DOCUMENTS, Phase.INDEXED, Phase.RESTING),
    Kind.REINDEX: (Phase.DOCUMENTS, Phase.INDEXED),
    Kind.RETRY_FAILED: (Phase.FAILED,),
    Kind.RESUME: (Phase.PAUSED,),
}


class BackfillState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    """Work on every document is requested, though not necessarily finished."""
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Backfill:
    job_id: str
    organization_id: str
    kb_id: str
    kind: Kind
    state: BackfillState
    phase: Phase
    cursor: str | None
    """Last document that was requested; the next step continues after it."""
    total: int
    """Number of documents that it was expected to request when it began."""
    queued: int
    traceparent: str
    created_at: datetime

    @property
    def knowledge_base(self) -> KnowledgeBaseKey:
        return KnowledgeBaseKey(self.organization_id, self.kb_id)

    @property
    def force(self) -> bool:
        return self.kind is Kind.REINDEX and self.phase is Phase.DOCUMENTS

    @property
    def next_phase(self) -> Phase | None:
        phases = PHASES[self.kind]
        later = phases[phases.index(self.phase) + 1 :]
        return later[0] if later else None


_ROWS: Final = RowMapper(
    Backfill,
    names={"job_id": "_id"},
    convert={"kind": Kind, "state": BackfillState, "phase": Phase},
    defaults={"kind": Kind.SCAN, "total": 0},
)


async def start(
    database: Database,
    session: MongoSession,
    key: KnowledgeBaseKey,
    *,
    traceparent: str,
    kind: Kind = Kind.SCAN,
    total: int = 0,
) -> Backfill:
    row = {
        "_id": str(ObjectId()),
        "organization_id": key.organization_id,
        "kb_id": key.kb_id,
        "kind": kind,
        "state": BackfillState.RUNNING,
        "phase": PHASES[kind][0],
        "cursor": None,
        "total": total,
        "queued": 0,
        "traceparent": traceparent,
        "lease_owner": None,
        "lease_until": None,
        "created_at": datetime.now(UTC),
        "finished_at": None,
    }
    await database[NAME].insert_one(row, session=session)
    return _ROWS.read(row)


async def find(
    database: Database, key: KnowledgeBaseKey, job_id: str, *, session: MongoSession | None = None
) -> Backfill | None:
    row = await database[NAME].find_one(
        {"_id": job_id, "organization_id": key.organization_id, "kb_id": key.kb_id}, session=session
    )
    return _ROWS.read(row) if row else None


async def find_latest(
    database: Database, session: MongoSession, key: KnowledgeBaseKey, *, kind: Kind
) -> Backfill | None:
    """Return the backfill of a kind that was started last."""
    row = await database[NAME].find_one(
        {"organization_id": key.organization_id, "kb_id": key.kb_id, "kind": kind},
        sort=[("_id", DESCENDING)],
        session=session,
    )
    return _ROWS.read(row) if row else None


async def find_page(
    database: Database, key: KnowledgeBaseKey, *, before: str | None = None, skip: int, limit: int
) -> tuple[list[Backfill], int]:
    """Return a page of the backfills of a KB, newest first, from before one if it is given, and the number of all."""
    return await _find_page(
        database, {"organization_id": key.organization_id, "kb_id": key.kb_id}, before=before, skip=skip, limit=limit
    )


async def find_page_of_organization(
    database: Database, organization_id: str, *, before: str | None = None, skip: int, limit: int
) -> tuple[list[Backfill], int]:
    """Return a page of the backfills of all KBs, as `find_page` does of one."""
    return await _find_page(database, {"organization_id": organization_id}, before=before, skip=skip, limit=limit)


async def _find_page(
    database: Database, query: Row, *, before: str | None, skip: int, limit: int
) -> tuple[list[Backfill], int]:
    earlier = {} if before is None else {"_id": {"$lt": before}}
    rows = database[NAME].find({**query, **earlier}).sort("_id", DESCENDING).skip(skip).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)


async def count_running(database: Database, organization_id: str) -> int:
    """Count the backfills of an organization that still request documents."""
    return await database[NAME].count_documents({"organization_id": organization_id, "state": BackfillState.RUNNING})


async def count_unrequested(database: Database, key: KnowledgeBaseKey) -> int:
    """Count the documents that the running backfills of a KB have not requested yet, as far as they were expected."""
    rest = {"$max": [0, {"$subtract": ["$total", "$queued"]}]}
    stages: list[Row] = [
        {"$match": {"organization_id": key.organization_id, "kb_id": key.kb_id, "state": BackfillState.RUNNING}},
        {"$group": {"_id": None, "documents": {"$max": rest}}},
    ]
    rows = await (await database[NAME].aggregate(stages)).to_list()
    return int(rows[0]["documents"]) if rows else 0


async def claim(database: Database, *, owner: str, lease: timedelta, but: list[str]) -> Backfill | None:
    """Lease a running backfill that has no worker, except those of `but`."""
    async with seen_by_later_reads(database):
        row = await database[NAME].find_one_and_update(
            {
                "state": BackfillState.RUNNING,
                "_id": {"$nin": but},
                "$or": [{"lease_until": None}, {"lease_owner": owner}, {"$expr": {"$lt": ["$lease_until", "$$NOW"]}}],
            },
            [
                {
                    "$set": {
                        "lease_owner": {"$literal": owner},
                        "lease_until": {"$add": ["$$NOW", int(lease.total_seconds() * 1000)]},
                    }
                }
            ],
            sort=[("_id", ASCENDING)],
            return_document=ReturnDocument.AFTER,
        )
    return _ROWS.read(row) if row else None


async def advance(
    database: Database, backfill: Backfill, *, owner: str, phase: Phase, cursor: str | None, queued: int
) -> bool:
    """Store the progress. After a crash, the last documents are requested again, which is harmless.

    False if the backfill was cancelled, or taken over by another worker, meanwhile.
    """
    advanced = await database[NAME].update_one(
        {"_id": backfill.job_id, "organization_id": backfill.organization_id, "lease_owner": owner},
        {"$set": {"phase": phase, "cursor": cursor}, "$inc": {"queued": queued}},
    )
    return advanced.matched_count == 1


async def finish(database: Database, backfill: Backfill, *, owner: str) -> None:
    await database[NAME].update_one(
        {"_id": backfill.job_id, "organization_id": backfill.organization_id, "lease_owner": owner},
        _end(BackfillState.DONE),
    )


async def cancel(database: Database, backfill: Backfill) -> None:
    """Stop requesting documents. A worker withdraws the requests that it makes at the same time."""
    await database[NAME].update_one(
        {"_id": backfill.job_id, "organization_id": backfill.organization_id, "kb_id": backfill.kb_id},
        _end(BackfillState.CANCELLED),
    )


def _end(state: BackfillState) -> list[Row]:
    # The server's clock, by which jobs know when they were requested.
    return [{"$set": {"state": state, "finished_at": "$$NOW", "lease_owner": None, "lease_until": None}}]


async def find_last_end(database: Database, session: MongoSession, key: KnowledgeBaseKey) -> datetime | None:
    """Return when the last backfill of a KB ended, by the server's clock; None while one runs."""
    rows = database[NAME].find(
        {"organization_id": key.organization_id, "kb_id": key.kb_id}, {"finished_at": 1}, session=session
    )
    ends = [row["finished_at"] async for row in rows]
    return None if None in ends else max(ends, default=datetime.fromtimestamp(0, UTC))


async def find_stuck(database: Database) -> list[str]:
    """Return running backfills that no worker has continued for `STUCK_AFTER`, or with an impossibly long lease."""
    abandoned = {"$subtract": ["$$NOW", int(STUCK_AFTER.total_seconds() * 1000)]}
    rows = database[NAME].find(
        {
            "state": BackfillState.RUNNING,
            "$or": [
                {"lease_until": None, "$expr": {"$lt": ["$created_at", abandoned]}},
                {"lease_until": {"$ne": None}, "$expr": {"$lt": ["$lease_until", abandoned]}},
                {"$expr": {"$gt": ["$lease_until", _LONGEST_LEASE_END]}},
            ],
        },
        {"_id": 1},
    )
    return [row["_id"] async for row in rows]


async def release_stuck(database: Database, job_id: str) -> bool:
    """Let another worker continue a backfill without a valid lease; False if one has taken it meanwhile."""
    released = await database[NAME].update_one(
        {
            "_id": job_id,
            "state": BackfillState.RUNNING,
            "$or": [
                {"lease_until": None},
                {"$expr": {"$lt": ["$lease_until", "$$NOW"]}},
                {"$expr": {"$gt": ["$lease_until", _LONGEST_LEASE_END]}},
            ],
        },
        {"$set": {"lease_owner": None, "lease_until": None}},
    )
    return released.matched_count == 1


async def delete_of_kb(database: Database, key: KnowledgeBaseKey) -> None:
    await database[NAME].delete_many({"organization_id": key.organization_id, "kb_id": key.kb_id})
