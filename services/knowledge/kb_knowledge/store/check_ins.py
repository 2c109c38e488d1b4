"""`check_ins`: texts that a chat model turned into knowledge. They are kept for 90 days."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument

from kb_contracts.api.check_ins import CheckInState
from kb_shared.errors import NotFound
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.rows import RowMapper
from kb_shared.mongo.stored_time import now

NAME = "check_ins"
KEPT: Final = timedelta(days=90)
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("_id", DESCENDING)]),
    IndexModel([("created_at", ASCENDING)], expireAfterSeconds=int(KEPT.total_seconds())),
]


@dataclass(frozen=True, slots=True)
class CheckInKey:
    """Identifies a check-in."""

    organization_id: str
    check_in_id: str


@dataclass(frozen=True, slots=True)
class CheckIn:
    check_in_id: str
    organization_id: str
    text: str
    proposal: str
    """Document of an import, in JSON: names of properties may be none that MongoDB takes."""
    warnings: Sequence[Mapping[str, Any]]
    model: str
    answers: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    created_at: datetime
    created_by: str
    state: CheckInState = "proposed"
    artifacts: Mapping[str, Any] | None = None
    applied_at: datetime | None = None

    @property
    def key(self) -> CheckInKey:
        return CheckInKey(self.organization_id, self.check_in_id)


_ROWS: Final = RowMapper(CheckIn, names={"check_in_id": "_id"})


async def insert(database: Database, session: MongoSession, check_in: CheckIn) -> None:
    row = asdict(check_in)
    await database[NAME].insert_one({"_id": row.pop("check_in_id"), **row}, session=session)


async def get(database: Database, key: CheckInKey) -> CheckIn:
    """Return a check-in. Raises NotFound."""
    return _found(await database[NAME].find_one(_identity(key)))


async def find_page(
    database: Database, organization_id: str, *, after: str | None, limit: int
) -> tuple[list[CheckIn], int]:
    """Return a page of check-ins, newest first, and their total number; `after` is the id before the page."""
    query: Row = {"organization_id": organization_id}
    page = query if after is None else {**query, "_id": {"$lt": after}}
    rows = database[NAME].find(page).sort("_id", DESCENDING).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)


async def set_applied(database: Database, key: CheckInKey, *, artifacts: Mapping[str, Any]) -> CheckIn:
    """Note that the proposal was imported. Raises NotFound."""
    row = await database[NAME].find_one_and_update(
        _identity(key),
        {"$set": {"state": "applied", "artifacts": artifacts, "applied_at": now()}},
        return_document=ReturnDocument.AFTER,
    )
    return _found(row)


def _found(row: Row | None) -> CheckIn:
    if row is None:
        raise NotFound("check-in")
    return _ROWS.read(row)


def _identity(key: CheckInKey) -> Row:
    return {"_id": key.check_in_id, "organization_id": key.organization_id}
