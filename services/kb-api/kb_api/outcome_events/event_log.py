"""`events`: what `GET /events` returns, for seven days; `event_positions`: the last position of each organization.

The positions of an organization follow each other without gaps. They are given in the transaction that stores the
events, which writes the row of `event_positions` first. So of two transactions that give positions to events of one
organization the second one has to begin again, and an event never appears below a position that was read before.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pymongo import ASCENDING, IndexModel, UpdateOne

from kb_shared.errors import RequestError
from kb_shared.mongo.database import Database, MongoSession, Row, upsert_all
from kb_shared.mongo.majority import majority_reads, seen_by_later_reads
from kb_shared.mongo.rows import RowMapper

NAME = "events"
POSITIONS = "event_positions"
KEPT: Final = timedelta(days=7)
INDEXES = [IndexModel([("at", ASCENDING)], expireAfterSeconds=int(KEPT.total_seconds()))]
WORK: Final[Sequence[Row]] = ({"operationType": "insert"},)
"""Changes after which there may be an event to send to the streams."""
SCANNED: Final = 1_000
"""Number of positions that one page looks at, so that a filter which admits little does not make it slow."""
_POSITION_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Event without a position."""

    organization_id: str
    type: str
    kb_id: str | None
    event: str
    """CloudEvent as JSON."""


@dataclass(frozen=True, slots=True)
class ListedEvent:
    organization_id: str
    position: int
    type: str
    event: str
    """CloudEvent as JSON."""
    at: datetime
    """Time at which it got its position; rises with the position."""
    kb_id: str | None = None


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Conditions on events; None: any."""

    types: frozenset[str] | None = None
    kb_ids: frozenset[str] | None = None

    def query(self) -> Row:
        conditions = {"type": self.types, "kb_id": self.kb_ids}
        return {name: {"$in": sorted(values)} for name, values in conditions.items() if values is not None}

    def admits(self, event: ListedEvent | NewEvent) -> bool:
        return (self.types is None or event.type in self.types) and (self.kb_ids is None or event.kb_id in self.kb_ids)


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events after a position, without those that the filter leaves out."""

    events: Sequence[ListedEvent]
    next_after: int
    """Position up to which all events were looked at."""
    has_more: bool


_EVENTS: Final = RowMapper(ListedEvent)


async def append(database: Database, session: MongoSession, events: Sequence[NewEvent]) -> list[ListedEvent]:
    """Store events with the next positions of their organizations, in this order."""
    now = datetime.now(UTC)
    counts = Counter(event.organization_id for event in events)
    ends = await _take_positions(database, session, counts, now=now)
    given: dict[str, int] = defaultdict(int)
    listed = []
    for event in events:
        organization_id = event.organization_id
        end, at = ends[organization_id]
        given[organization_id] += 1
        position = end - counts[organization_id] + given[organization_id]
        listed.append(ListedEvent(organization_id, position, event.type, event.event, at, event.kb_id))
    await database[NAME].insert_many([_to_row(event) for event in listed], session=session)
    return listed


async def _take_positions(
    database: Database, session: MongoSession, counts: Mapping[str, int], *, now: datetime
) -> dict[str, tuple[int, datetime]]:
    """Return the last of the new positions of each organization, and the time of its events."""
    found = database[POSITIONS].find(_keys(counts), session=session)
    rows = {row["_id"]: row async for row in found}
    ends = {}
    for organization_id, count in counts.items():
        row = rows.get(organization_id, _first_row(organization_id, now))
        # Rows expire by time: it must not fall where positions rise, whichever clock is slow.
        ends[organization_id] = (row["last"] + count, max(now, row["at"]))
    updates = [
        UpdateOne(_key(organization_id), {"$set": {"last": last, "at": at}}, upsert=True)
        for organization_id, (last, at) in ends.items()
    ]
    await database[POSITIONS].bulk_write(updates, session=session)
    return ends


async def find_last_positions(database: Database, organization_ids: Collection[str]) -> dict[str, int]:
    """Return the last position of organizations; those without a row are missing."""
    async with majority_reads(database) as majority:
        rows = majority[POSITIONS].find(_keys(organization_ids), {"last": 1})
        return {row["_id"]: row["last"] async for row in rows}


async def get_last_position(database: Database, organization_id: str) -> int:
    """Return the last position of an organization; the first call for it begins its positions."""
    found = await find_last_positions(database, [organization_id])
    if organization_id in found:
        return found[organization_id]
    return await _confirm_last_position(database, organization_id)


async def _confirm_last_position(database: Database, organization_id: str) -> int:
    """Return the last position, including all that any process has read, also just after an election."""
    first = _first_row(organization_id, datetime.now(UTC))
    start = {name: first[name] for name in ("last", "at")}
    async with seen_by_later_reads(database):
        # Acknowledged by a majority, which then also has all that was written before, even if this changes nothing.
        await upsert_all(database[POSITIONS], [UpdateOne(_key(organization_id), {"$setOnInsert": start}, upsert=True)])
    return (await find_last_positions(database, [organization_id]))[organization_id]


async def read_page(
    database: Database, organization_id: str, wanted: EventFilter, *, after: int | None, limit: int
) -> EventPage:
    """Return the first events after a position; None: from the oldest one that is kept.

    Raises:
        RequestError: 410, events after this position are not kept any more, or it was not given.
    """
    last = await get_last_position(database, organization_id)
    if after is None:
        after = await _before_oldest(database, organization_id, last=last)
    elif after > last:
        last = await _confirm_last_position(database, organization_id)
    if after > last:
        raise _expired()
    if after == last:
        return EventPage((), after, has_more=False)
    end = min(after + SCANNED, last)
    rows = await _find(database, organization_id, wanted, after=after, end=end, limit=limit)
    if not rows or rows[0].position != after + 1:
        raise _expired()
    events = [event for event in rows if wanted.admits(event)][:limit]
    next_after = events[-1].position if len(events) == limit else end
    return EventPage(events, next_after, has_more=next_after < last)


async def _find(
    database: Database, organization_id: str, wanted: EventFilter, *, after: int, end: int, limit: int
) -> list[ListedEvent]:
    """Return events from the position after `after` to `end`. The first one is returned in any case.

    Rows expire in the order of positions, so no other is missing if the first one is there.
    """
    first = {"position": after + 1}
    query: Row = {
        "_id": {"$gt": _row_id(organization_id, after), "$lte": _row_id(organization_id, end)},
        "organization_id": organization_id,
        **({"$or": [first, conditions]} if (conditions := wanted.query()) else {}),
    }
    async with majority_reads(database) as majority:
        rows = majority[NAME].find(query).sort("_id", ASCENDING).limit(limit + 1)
        return [_EVENTS.read(row) async for row in rows]


async def _before_oldest(database: Database, organization_id: str, *, last: int) -> int:
    within = {"$gt": _row_id(organization_id, 0), "$lte": _row_id(organization_id, last)}
    query = {"_id": within, "organization_id": organization_id}
    async with majority_reads(database) as majority:
        row = await majority[NAME].find_one(query, {"position": 1}, sort=[("_id", ASCENDING)])
    return last if row is None else int(row["position"]) - 1


def _first_row(organization_id: str, now: datetime) -> Row:
    # Above all positions that this organization had before its rows were deleted, or lost to a restored backup: their
    # cursors must not name other events.
    return {**_key(organization_id), "last": time.time_ns() // 1_000, "at": now}


def _key(organization_id: str) -> Row:
    return {"_id": organization_id, "organization_id": organization_id}


def _keys(organization_ids: Collection[str]) -> Row:
    ids = {"$in": list(organization_ids)}
    return {"_id": ids, "organization_id": ids}


def _row_id(organization_id: str, position: int) -> str:
    return f"{organization_id}/{position:0{_POSITION_DIGITS}d}"


def _to_row(event: ListedEvent) -> dict[str, Any]:
    return {
        "_id": _row_id(event.organization_id, event.position),
        "organization_id": event.organization_id,
        "position": event.position,
        "at": event.at,
        "type": event.type,
        "event": event.event,
        **({} if event.kb_id is None else {"kb_id": event.kb_id}),
    }


def _expired() -> RequestError:
    return RequestError(
        410,
        "events-expired",
        f"Events after this position are not kept any more: that is {KEPT.days} days. Read the current state of your "
        "documents, and continue without `after`, which begins with the oldest event that is kept.",
    )
