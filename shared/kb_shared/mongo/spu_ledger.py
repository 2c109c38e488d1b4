"""`spu_ledger`: what was charged. Written in the transaction that stores what was paid for; the truth of all bills."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from pymongo import ASCENDING, IndexModel

from kb_shared.mongo.database import Database, Row, Session

NAME = "spu_ledger"
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("created_at", ASCENDING)]),
    IndexModel([("organization_id", ASCENDING), ("kb_id", ASCENDING)]),
]

Operation = Literal["index", "search"]
Dimension = Literal["kb", "model", "operation", "day"]

_DIMENSIONS: Final[Mapping[Dimension, Any]] = {
    "kb": "$kb_id",
    "model": "$model",
    "operation": "$operation",
    "day": {"$dateToString": {"format": "%Y-%m-%d", "date": "$created_at"}},
}


@dataclass(frozen=True, slots=True)
class Charge:
    ledger_id: str
    """Made before the transaction, so that a repeated commit charges once."""
    organization_id: str
    kb_id: str | None
    operation: Operation
    model: str
    count: int


async def charge(database: Database, session: Session, charges: Sequence[Charge]) -> None:
    now = datetime.now(UTC)
    await database[NAME].insert_many(
        [
            {
                "_id": each.ledger_id,
                "organization_id": each.organization_id,
                "kb_id": each.kb_id,
                "operation": each.operation,
                "model": each.model,
                "count": each.count,
                "created_at": now,
            }
            for each in charges
        ],
        session=session,
    )


async def total(database: Database, organization_id: str, *, kb_id: str | None = None, this_month: bool = False) -> int:
    """What an organization was charged, for one KB or for all, ever or in this month of the server's clock."""
    match: Row = {"organization_id": organization_id} | ({"kb_id": kb_id} if kb_id else {})
    if this_month:
        match["$expr"] = {"$gte": ["$created_at", {"$dateTrunc": {"date": "$$NOW", "unit": "month"}}]}
    rows = await database[NAME].aggregate([{"$match": match}, {"$group": {"_id": None, "spus": {"$sum": "$count"}}}])
    return sum([row["spus"] async for row in rows])


async def usage(
    database: Database, organization_id: str, *, since: datetime, until: datetime, by: Collection[Dimension]
) -> list[tuple[dict[Dimension, str | None], int]]:
    """What was charged from `since` up to, and without, `until`, by the values of some dimensions, in their order."""
    within = {"organization_id": organization_id, "created_at": {"$gte": since, "$lt": until}}
    group = {"_id": {name: _DIMENSIONS[name] for name in by}, "spus": {"$sum": "$count"}}
    rows = await database[NAME].aggregate([{"$match": within}, {"$group": group}, {"$sort": {"_id": 1}}])
    return [({name: row["_id"].get(name) for name in by}, row["spus"]) async for row in rows]
