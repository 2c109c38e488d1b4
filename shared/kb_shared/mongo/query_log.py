"""`query_log`: what was searched for, kept for 90 days, so that people see what is asked and what is not found."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from pymongo import ASCENDING, DESCENDING, IndexModel

from kb_shared.mongo.database import Database, Row

NAME = "query_log"
KEPT_FOR: Final = timedelta(days=90)
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("asked_at", DESCENDING)]),
    IndexModel([("asked_at", ASCENDING)], expireAfterSeconds=int(KEPT_FOR.total_seconds())),
]

Origin: TypeAlias = Literal["sdk", "console", "cli", "agent", "mcp"]
Insight: TypeAlias = Literal["top", "zero_results", "slow"]


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    organization_id: str
    kb_ids: tuple[str, ...]
    query: str
    mode: str
    result_count: int
    duration_ms: float
    origin: Origin
    key_id: str
    run_id: str | None
    asked_at: datetime


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """All searches for the same text, but for capitals and spaces."""

    query: str
    """As it was written last."""
    searches: int
    without_results: int
    mean_results: float
    mean_ms: float
    max_ms: float
    last_asked_at: datetime


async def insert(database: Database, queries: Sequence[LoggedQuery]) -> None:
    await database[NAME].insert_many([_to_row(query) for query in queries], ordered=False)


def _to_row(query: LoggedQuery) -> Row:
    row = {each.name: getattr(query, each.name) for each in fields(query)}
    return {**row, "kb_ids": list(query.kb_ids), "same": " ".join(query.query.casefold().split())}


_WANTED: Final[dict[Insight, dict[str, Any]]] = {
    "top": {},
    "zero_results": {"without_results": {"$gt": 0}},
    "slow": {},
}
_ORDER: Final[dict[Insight, str]] = {"top": "searches", "zero_results": "without_results", "slow": "mean_ms"}


async def asked(
    database: Database,
    organization_id: str,
    insight: Insight,
    *,
    since: datetime,
    until: datetime,
    kb_id: str | None = None,
    skip: int,
    limit: int,
) -> tuple[list[AskedQuery], int]:
    """Queries by how often they were asked, how often in vain, or how long they took; one page, and how many in all."""
    match: Row = {"organization_id": organization_id, "asked_at": {"$gte": since, "$lt": until}}
    if kb_id is not None:
        match["kb_ids"] = kb_id
    group = {
        "_id": "$same",
        "query": {"$last": "$query"},
        "searches": {"$sum": 1},
        "without_results": {"$sum": {"$cond": [{"$eq": ["$result_count", 0]}, 1, 0]}},
        "mean_results": {"$avg": "$result_count"},
        "mean_ms": {"$avg": "$duration_ms"},
        "max_ms": {"$max": "$duration_ms"},
        "last_asked_at": {"$last": "$asked_at"},
    }
    order = {_ORDER[insight]: DESCENDING, "_id": ASCENDING}
    rows = await database[NAME].aggregate(
        [
            {"$match": match},
            {"$sort": {"asked_at": ASCENDING}},
            {"$group": group},
            {"$match": _WANTED[insight]},
            {
                "$facet": {
                    "page": [{"$sort": order}, {"$skip": skip}, {"$limit": limit}, {"$unset": "_id"}],
                    "total": [{"$count": "count"}],
                }
            },
        ],
        allowDiskUse=True,
    )
    [found] = await rows.to_list()
    total = found["total"][0]["count"] if found["total"] else 0
    return [AskedQuery(**row) for row in found["page"]], total
