"""`spu_ledger`: all charges, in SPUs and money; the authoritative source for bills.

A charge for embeddings is written in the transaction that stores them. Chat models cost money but no SPUs; their charge
is written after the response.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from pymongo import ASCENDING, IndexModel

from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.keys import KnowledgeBaseKey

NAME = "spu_ledger"
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("created_at", ASCENDING)]),
    IndexModel([("organization_id", ASCENDING), ("kb_id", ASCENDING)]),
]

_IN_THIS_MONTH: Final = {"$gte": ["$created_at", {"$dateTrunc": {"date": "$$NOW", "unit": "month"}}]}
_SUMS: Final = {"spus": {"$sum": "$count"}, "nano_usd": {"$sum": "$nano_usd"}}
_RECENT_CHARGES: Final = 20_000
_LAST_CHARGES: Final = 2_000

ChargedOperation = Literal["index", "search", "chat"]
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
    """Id that is created before the transaction, so that a repeated commit charges once."""
    organization_id: str
    kb_id: str | None
    operation: ChargedOperation
    model: str
    count: int
    """Number of SPUs."""
    nano_usd: int = 0
    """Billionths of a US dollar; 0 where the price is not known."""


@dataclass(frozen=True, slots=True)
class Spent:
    spus: int = 0
    nano_usd: int = 0


async def charge(database: Database, session: MongoSession | None, charges: Sequence[Charge]) -> None:
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
                "nano_usd": each.nano_usd,
                "created_at": now,
            }
            for each in charges
        ],
        session=session,
    )


async def sum_spus(database: Database, organization_id: str) -> int:
    """Return the SPUs that an organization was ever charged."""
    return (await _spent(database, {"organization_id": organization_id})).spus


async def sum_of_kb(database: Database, key: KnowledgeBaseKey) -> tuple[Spent, Spent]:
    """Return what was charged for a KB, ever and in this month of the server's clock."""

    def if_new(field: str) -> Row:
        return {"$sum": {"$cond": [_IN_THIS_MONTH, field, 0]}}

    group = {"_id": None, **_SUMS, "new_spus": if_new("$count"), "new_nano_usd": if_new("$nano_usd")}
    match = {"organization_id": key.organization_id, "kb_id": key.kb_id}
    stages: list[Row] = [{"$match": match}, {"$group": group}]
    async for row in await database[NAME].aggregate(stages):
        return Spent(row["spus"], row["nano_usd"]), Spent(row["new_spus"], row["new_nano_usd"])
    return Spent(), Spent()


async def sum_this_month(database: Database, organization_id: str) -> Spent:
    """Return what an organization was charged in this month of the server's clock."""
    return await _spent(database, {"organization_id": organization_id, "$expr": _IN_THIS_MONTH})


async def _spent(database: Database, match: Row) -> Spent:
    rows = await database[NAME].aggregate([{"$match": match}, {"$group": {"_id": None, **_SUMS}}])
    async for row in rows:
        return Spent(row["spus"], row["nano_usd"])
    return Spent()


async def sum_usage(
    database: Database,
    organization_id: str,
    *,
    since: datetime,
    until: datetime,
    by: Collection[Dimension],
    kb_ids: Collection[str] | None = None,
    at_most: int,
) -> list[tuple[dict[Dimension, str | None], Spent]]:
    """Sum the charges from `since` (included) to `until` (excluded) by the values of some dimensions, in order.

    Args:
        kb_ids: KBs whose charges count; None: all charges.
        at_most: number of sums to return.
    """
    within: Row = {"organization_id": organization_id, "created_at": {"$gte": since, "$lt": until}}
    if kb_ids is not None:
        within["kb_id"] = {"$in": list(kb_ids)}
    group = {
        "_id": {name: _DIMENSIONS[name] for name in by},
        **_SUMS,
    }
    stages: list[Row] = [{"$match": within}, {"$group": group}, {"$sort": {"_id": 1}}, {"$limit": at_most}]
    rows = await database[NAME].aggregate(stages)
    return [({name: row["_id"].get(name) for name in by}, Spent(row["spus"], row["nano_usd"])) async for row in rows]


@dataclass(frozen=True, slots=True)
class ChargedSecond:
    """A second in which vectors of documents were charged."""

    at: datetime
    spus: int
    spus_of_kb: int


async def find_charged_seconds(database: Database, key: KnowledgeBaseKey, *, model: str) -> list[ChargedSecond]:
    """Return the last seconds in which an organization was charged for documents by `model`, in the order of time.

    They tell how fast it is, also within a document. Of many charges the latest count.
    """
    of_kb = {"$cond": [{"$eq": ["$kb_id", key.kb_id]}, "$count", 0]}
    stages: list[Row] = [
        {"$match": {"organization_id": key.organization_id}},
        {"$sort": {"created_at": -1}},
        {"$limit": _LAST_CHARGES},
        {"$match": {"model": model, "operation": "index"}},
        {
            "$group": {
                "_id": {"$dateTrunc": {"date": "$created_at", "unit": "second"}},
                "spus": {"$sum": "$count"},
                "spus_of_kb": {"$sum": of_kb},
            }
        },
        {"$sort": {"_id": 1}},
    ]
    rows = await database[NAME].aggregate(stages)
    return [ChargedSecond(row["_id"], row["spus"], row["spus_of_kb"]) async for row in rows]


async def find_busiest_minute(database: Database, organization_id: str, *, model: str, since: datetime) -> int:
    """Return the most SPUs of `model` that an organization was charged in one minute, for documents.

    Of many charges the latest count.
    """
    stages: list[Row] = [
        {"$match": {"organization_id": organization_id, "created_at": {"$gte": since}}},
        {"$sort": {"created_at": -1}},
        {"$limit": _RECENT_CHARGES},
        {"$match": {"model": model, "operation": "index"}},
        {"$group": {"_id": {"$dateTrunc": {"date": "$created_at", "unit": "minute"}}, "spus": {"$sum": "$count"}}},
        {"$group": {"_id": None, "most": {"$max": "$spus"}}},
    ]
    return sum([row["most"] async for row in await database[NAME].aggregate(stages)])
