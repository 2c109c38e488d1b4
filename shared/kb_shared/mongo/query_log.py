"""`query_log`: queries of searches with their outcomes, for reports on what people and agents search for."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from pymongo import ASCENDING, DESCENDING, IndexModel

from kb_contracts.api.insights import Insight, SearchGroup
from kb_contracts.api.search import LoggedOrigin
from kb_shared.mongo.database import Database, Row

NAME = "query_log"
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("asked_at", DESCENDING)]),
    IndexModel([("expires_at", ASCENDING)], expireAfterSeconds=0),
]

Origin: TypeAlias = LoggedOrigin
LoggedOutcome: TypeAlias = Literal["answered", "degraded", "nothing_found", "refused", "unavailable", "failed"]
FAILURES: Final[tuple[LoggedOutcome, ...]] = ("refused", "unavailable", "failed")


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """One search."""

    organization_id: str
    kb_ids: tuple[str, ...]
    """KBs that were searched; of a failed search, those that it named."""
    query: str
    mode: str
    outcome: LoggedOutcome
    """Outcome of the search. Rows from before failures were stored have none: these searches were answered."""
    result_count: int
    """Number of results; 0 for a search that failed."""
    duration_ms: float
    origin: Origin
    key_id: str
    run_id: str | None
    asked_at: datetime
    agent_id: str | None = None
    """Agent whose run searched, or that the caller named; None for other searches."""


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """All searches for the same text, regardless of case and spaces."""

    query: str
    """Text of the last of these searches."""
    searches: int
    without_results: int
    """Number of answered searches without a result."""
    failed: int
    mean_results: float
    """Mean number of results of answered searches; 0 if there are none."""
    mean_ms: float
    max_ms: float
    last_asked_at: datetime


async def insert(database: Database, queries: Sequence[LoggedQuery], *, kept: timedelta) -> None:
    """Store queries, which are deleted after `kept`."""
    await database[NAME].insert_many([_to_row(query, kept) for query in queries], ordered=False)


def _to_row(query: LoggedQuery, kept: timedelta) -> Row:
    row = {each.name: getattr(query, each.name) for each in fields(query)}
    same = " ".join(query.query.casefold().split())
    return {**row, "kb_ids": list(query.kb_ids), "same": same, "expires_at": query.asked_at + kept}


_WANTED: Final[dict[Insight, dict[str, Any]]] = {
    "top": {},
    "zero_results": {"without_results": {"$gt": 0}},
    "failed": {"failed": {"$gt": 0}},
    "slow": {},
}
_ORDER: Final[dict[Insight, str]] = {
    "top": "searches",
    "zero_results": "without_results",
    "failed": "failed",
    "slow": "mean_ms",
}
_FAILED: Final[Row] = {"$in": ["$outcome", list(FAILURES)]}
_FOUND_NOTHING: Final[Row] = {"$and": [{"$eq": ["$result_count", 0]}, {"$not": [_FAILED]}]}


@dataclass(frozen=True, slots=True)
class SearchesWanted:
    """Conditions that all must hold; None: no condition."""

    since: datetime
    until: datetime
    """End of the time of the searches, excluded."""
    kb_id: str | None = None
    origin: Origin | None = None
    agent_id: str | None = None
    limited_to: Collection[str] | None = None
    """KBs outside of which a search that counts was not made."""

    def query(self, organization_id: str) -> Row:
        match: Row = {"organization_id": organization_id, "asked_at": {"$gte": self.since, "$lt": self.until}}
        equal = {"kb_ids": self.kb_id, "origin": self.origin, "agent_id": self.agent_id}
        match |= {name: value for name, value in equal.items() if value is not None}
        if self.limited_to is not None:
            match["$nor"] = [{"kb_ids": {"$elemMatch": {"$nin": list(self.limited_to)}}}, {"kb_ids": []}]
        return match


_ASKED_QUERY: Final[Row] = {
    "_id": "$same",
    "query": {"$last": "$query"},
    "searches": {"$sum": 1},
    "without_results": {"$sum": {"$cond": [_FOUND_NOTHING, 1, 0]}},
    "failed": {"$sum": {"$cond": [_FAILED, 1, 0]}},
    # $avg ignores null.
    "mean_results": {"$avg": {"$cond": [_FAILED, None, "$result_count"]}},
    "mean_ms": {"$avg": "$duration_ms"},
    "max_ms": {"$max": "$duration_ms"},
    "last_asked_at": {"$last": "$asked_at"},
}


async def asked(
    database: Database, organization_id: str, insight: Insight, *, wanted: SearchesWanted, skip: int, limit: int
) -> tuple[list[AskedQuery], int]:
    """Return one page of queries, and how many there are in all.

    They are ordered by how often they were asked, found nothing or failed, or by their mean duration.
    """
    order = {_ORDER[insight]: DESCENDING, "_id": ASCENDING}
    rows = await database[NAME].aggregate(
        [
            {"$match": wanted.query(organization_id)},
            {"$sort": {"asked_at": ASCENDING}},
            {"$group": _ASKED_QUERY},
            {"$set": {"mean_results": {"$ifNull": ["$mean_results", 0.0]}}},
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


@dataclass(frozen=True, slots=True)
class SearchCount:
    """Searches of one day, from one kind of client, in one KB, as far as they are told apart."""

    searches: int
    without_results: int
    failed: int
    mean_ms: float
    day: str | None = None
    """Day in UTC, such as `2026-01-31`."""
    origin: Origin | None = None
    kb_id: str | None = None


_GROUPS: Final[dict[SearchGroup, Any]] = {
    "day": {"$dateToString": {"date": "$asked_at", "format": "%Y-%m-%d"}},
    "origin": "$origin",
    "kb": "$kb_ids",
}
_GROUP_FIELDS: Final[dict[SearchGroup, str]] = {"day": "day", "origin": "origin", "kb": "kb_id"}
MAX_GROUPS: Final = 10_000


async def count_searches(
    database: Database,
    organization_id: str,
    group_by: Collection[SearchGroup],
    *,
    wanted: SearchesWanted,
) -> list[SearchCount]:
    """Count searches by day, origin and KB, in this order. A search of several KBs counts in each of them."""
    by_kb: list[Row] = [{"$unwind": "$kb_ids"}] if "kb" in group_by else []
    if by_kb and wanted.kb_id is not None:
        by_kb.append({"$match": {"kb_ids": wanted.kb_id}})
    fields = {_GROUP_FIELDS[each]: _GROUPS[each] for each in _GROUPS if each in group_by}
    rows = await database[NAME].aggregate(
        [
            {"$match": wanted.query(organization_id)},
            *by_kb,
            {
                "$group": {
                    "_id": fields,
                    "searches": {"$sum": 1},
                    "without_results": {"$sum": {"$cond": [_FOUND_NOTHING, 1, 0]}},
                    "failed": {"$sum": {"$cond": [_FAILED, 1, 0]}},
                    "mean_ms": {"$avg": "$duration_ms"},
                }
            },
            {"$sort": {"_id": ASCENDING}},
            {"$limit": MAX_GROUPS},
        ],
        allowDiskUse=True,
    )
    return [SearchCount(**row.pop("_id"), **row) async for row in rows]


_MOST_COUNTED: Final = 100_000


async def find_most_searched(
    database: Database, organization_id: str, *, kb_ids: Collection[str], since: datetime, limit: int
) -> dict[str, int]:
    """Return those of `kb_ids` with the most searches since a time, most first, with their numbers of searches.

    A search of several KBs counts in each of them. Only the last 100,000 searches of the organization are counted.
    """
    rows = await database[NAME].aggregate(
        [
            {"$match": {"organization_id": organization_id, "asked_at": {"$gte": since}}},
            {"$sort": {"asked_at": DESCENDING}},
            {"$limit": _MOST_COUNTED},
            {"$unwind": "$kb_ids"},
            {"$match": {"kb_ids": {"$in": list(kb_ids)}}},
            {"$group": {"_id": "$kb_ids", "searches": {"$sum": 1}}},
            {"$sort": {"searches": DESCENDING, "_id": ASCENDING}},
            {"$limit": limit},
        ],
    )
    return {row["_id"]: row["searches"] async for row in rows}
