"""`audit_log`: administrative calls, kept for a year: who did what to what, with which outcome. No bodies."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from pymongo import ASCENDING, DESCENDING, IndexModel

from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.rows import RowMapper

NAME = "audit_log"
KEPT: Final = timedelta(days=365)
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("_id", DESCENDING)]),
    IndexModel([("at", ASCENDING)], expireAfterSeconds=int(KEPT.total_seconds())),
]

AuditOutcome: TypeAlias = Literal["succeeded", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One administrative call."""

    entry_id: str
    """Id that increases with time."""
    organization_id: str
    key_id: str
    operation: str
    target: Mapping[str, str]
    """Ids in the path of the call, by name."""
    outcome: AuditOutcome
    status: int
    request_id: str
    at: datetime
    reason: str | None = None
    """Why the caller had something done that is refused otherwise."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions on entries; None: any."""

    key_id: str | None = None
    operation: str | None = None
    outcome: AuditOutcome | None = None
    since: datetime | None = None
    until: datetime | None = None


_ROWS: Final = RowMapper(AuditEntry, names={"entry_id": "_id"})


async def store(database: Database, entry: AuditEntry, *, session: MongoSession | None = None) -> None:
    """Store an entry, in place of an earlier one about the same call."""
    row = asdict(entry)
    key = {"_id": row.pop("entry_id"), "organization_id": entry.organization_id}
    await database[NAME].replace_one(key, row, upsert=True, session=session)


async def store_unless_changed(database: Database, entry: AuditEntry) -> None:
    """Store an entry, unless one was stored in the transaction of the change: then the change is in effect."""
    row = asdict(entry)
    key = {"_id": row.pop("entry_id"), "organization_id": entry.organization_id}
    await database[NAME].update_one(key, {"$setOnInsert": row}, upsert=True)


async def find_page(
    database: Database, organization_id: str, wanted: AuditFilter, *, before: str | None, limit: int
) -> list[AuditEntry]:
    """Return a page of the entries, newest first: those that are older than the entry `before`."""
    query: Row = {"organization_id": organization_id}
    conditions = {"key_id": wanted.key_id, "operation": wanted.operation, "outcome": wanted.outcome}
    query |= {name: value for name, value in conditions.items() if value is not None}
    times = {"$gte": wanted.since, "$lt": wanted.until}
    if within := {operator: time for operator, time in times.items() if time is not None}:
        query["at"] = within
    if before is not None:
        query["_id"] = {"$lt": before}
    rows = database[NAME].find(query).sort("_id", DESCENDING).limit(limit)
    return [_ROWS.read(row) async for row in rows]
