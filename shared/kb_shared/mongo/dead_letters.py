"""`dead_letters`: records that could not be handled, with their organization if it is known, and what became of them.

A letter is open until it is redriven or discarded. One that was discarded can still be redriven.

The id of a letter is computed from its record and position, so a letter that is filed twice is stored once. Bodies are
in `dead_letter_bodies`, in pieces that fit into a row, so lists don't read them. Both are deleted after 90 days.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from pymongo import ASCENDING, DESCENDING, IndexModel, UpdateOne

from kb_shared.mongo.database import Database, MongoSession, Row, upsert_all
from kb_shared.mongo.rows import RowMapper
from kb_shared.mongo.time_position import TimePosition

NAME = "dead_letters"
BODIES = "dead_letter_bodies"
KEPT_FOR: Final = timedelta(days=90)

_TTL: Final = int(KEPT_FOR.total_seconds())
_NOT_REDRIVEN: Final = {"redriven_at": None}
_OPEN: Final = {**_NOT_REDRIVEN, "discarded_at": None}
_MOST_COUNTED: Final = 100_000
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("filed_at", DESCENDING)]),
    IndexModel([("filed_at", ASCENDING)], expireAfterSeconds=_TTL),
    IndexModel(
        [("discarded_at", ASCENDING), ("organization_id", ASCENDING), ("filed_at", ASCENDING)],
        partialFilterExpression=_NOT_REDRIVEN,
    ),
]
# A body is deleted after its letter, so every listed letter can be sent again.
BODY_INDEXES = [IndexModel([("filed_at", ASCENDING)], expireAfterSeconds=_TTL + 24 * 3600)]

_PIECE_BYTES: Final = 8_000_000

Visible = Collection[str | None]
"""Organizations whose letters may be seen; None stands for letters of unknown organization."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    letter_id: str
    organization_id: str | None
    document_id: str | None
    topic: str
    """Topic without the prefix of the deployment."""
    partition: int
    offset: int
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    size_bytes: int | None
    """Value of the record; None if it had none."""
    reason: str
    detail: str
    traceparent: str
    occurred_at: datetime | None
    """Timestamp of the record; None if it had no plausible one."""
    filed_at: datetime
    redriven_from: str | None = None
    """Id of the letter that was sent again and failed again as this one."""
    redriven_at: datetime | None = None
    redriven_by: str | None = None
    discarded_at: datetime | None = None
    discarded_by: str | None = None


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Letters that are wanted; None: whatever the value is."""

    topic: str | None = None
    reason: str | None = None
    is_open: bool | None = None
    letter_ids: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class OpenLetters:
    """Open letters of a topic, or with a reason."""

    letters: int
    oldest: datetime
    """Time at which the oldest of them was filed."""


@dataclass(frozen=True, slots=True)
class OpenLettersByReason:
    reasons: Mapping[str, OpenLetters]
    is_exact: bool
    """False if there are more letters than are counted."""


def _headers(stored: Iterable[tuple[str, bytes | None]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, value) for name, value in stored)


_ROWS: Final = RowMapper(DeadLetter, names={"letter_id": "_id"}, convert={"headers": _headers})


@dataclass(frozen=True, slots=True, eq=False)
class Filing:
    """Letter to store, with the value of its record."""

    letter: DeadLetter
    body: bytes | None


async def file(database: Database, filings: Sequence[Filing]) -> None:
    """Store letters, after their bodies. Filing them again changes nothing.

    Not even the organization, which may have come into being since.
    """
    if pieces := [piece for filing in filings for piece in _upserts_of_body(filing)]:
        await upsert_all(database[BODIES], pieces)
    await upsert_all(database[NAME], [_upsert_of_letter(filing.letter) for filing in filings])


def _upserts_of_body(filing: Filing) -> list[UpdateOne]:
    letter = filing.letter
    about = {
        "letter_id": letter.letter_id,
        "organization_id": letter.organization_id,
        "filed_at": letter.filed_at,
    }
    return [
        UpdateOne({"_id": piece_id}, {"$setOnInsert": {**about, "data": data}}, upsert=True)
        for piece_id, data in _pieces(letter.letter_id, filing.body or b"").items()
    ]


def _upsert_of_letter(letter: DeadLetter) -> UpdateOne:
    fields = {name: value for name, value in asdict(letter).items() if name != "letter_id"}
    fields["headers"] = [[name, value] for name, value in letter.headers]
    return UpdateOne({"_id": letter.letter_id}, {"$setOnInsert": fields}, upsert=True)


async def find_page(
    database: Database,
    visible: Visible,
    wanted: LetterFilter,
    *,
    after: TimePosition | None = None,
    skip: int,
    limit: int,
) -> tuple[list[DeadLetter], int]:
    """Return a page of letters, newest first, of those after a position if it is given, and the number of all."""
    query = _matching(visible, wanted)
    newest_first = [("filed_at", DESCENDING), ("_id", ASCENDING)]
    later = {} if after is None else after.build_condition("filed_at", after.row_id)
    rows = database[NAME].find({**query, **later}).sort(newest_first).skip(skip).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)


async def find(
    database: Database, visible: Visible, letter_id: str, *, session: MongoSession | None = None
) -> DeadLetter | None:
    row = await database[NAME].find_one({"_id": letter_id, **_seen_by(visible)}, session=session)
    return _ROWS.read(row) if row else None


async def find_oldest_open(
    database: Database, visible: Visible, wanted: LetterFilter, *, at_most_bytes: int, limit: int
) -> list[str]:
    """Return the ids of open letters, the oldest first, with bodies of at most `at_most_bytes`."""
    query = _matching(visible, wanted) | _OPEN | {"size_bytes": {"$not": {"$gt": at_most_bytes}}}
    rows = database[NAME].find(query, {"_id": True}).sort("filed_at", ASCENDING).limit(limit)
    return [row["_id"] async for row in rows]


async def find_open(database: Database, visible: Visible, wanted: LetterFilter, *, limit: int) -> list[str]:
    """Return the ids of open letters, the oldest first."""
    query = _matching(visible, wanted) | _OPEN
    rows = database[NAME].find(query, {"_id": True}).sort("filed_at", ASCENDING).limit(limit)
    return [row["_id"] async for row in rows]


async def count_larger_open(database: Database, visible: Visible, wanted: LetterFilter, *, than_bytes: int) -> int:
    """Count open letters with larger bodies than `than_bytes`, among 100,000 at most."""
    stages: list[Row] = [
        {"$match": _matching(visible, wanted) | _OPEN},
        {"$limit": _MOST_COUNTED},
        {"$match": {"size_bytes": {"$gt": than_bytes}}},
        {"$count": "letters"},
    ]
    return sum([row["letters"] async for row in await database[NAME].aggregate(stages)])


async def count_open(database: Database) -> dict[str, OpenLetters]:
    """Count the open letters of all organizations by topic; a topic without any is absent."""
    return await _count_by(database, "topic", [{"$match": _OPEN}])


async def count_open_by_reason(database: Database, visible: Visible) -> OpenLettersByReason:
    """Count open letters by reason."""
    stages: list[Row] = [{"$match": {**_seen_by(visible), **_OPEN}}, {"$limit": _MOST_COUNTED}]
    reasons = await _count_by(database, "reason", stages)
    total = sum(each.letters for each in reasons.values())
    return OpenLettersByReason(reasons, is_exact=total < _MOST_COUNTED)


async def count_open_of(database: Database, organization_id: str, *, limit: int = 0) -> int:
    """Count the open letters of an organization, up to `limit`; 0 means no limit."""
    query = {"organization_id": organization_id, **_OPEN}
    if limit:
        return await database[NAME].count_documents(query, limit=limit)
    return await database[NAME].count_documents(query)


async def _count_by(database: Database, field: str, stages: Sequence[Row]) -> dict[str, OpenLetters]:
    group = {"_id": f"${field}", "letters": {"$sum": 1}, "oldest": {"$min": "$filed_at"}}
    rows = await database[NAME].aggregate([*stages, {"$group": group}])
    return {row["_id"]: OpenLetters(row["letters"], row["oldest"]) async for row in rows}


async def read_body(database: Database, letter: DeadLetter, session: MongoSession | None = None) -> bytes | None:
    """Return the value of the record, unchanged; None if it had no value."""
    if letter.size_bytes is None:
        return None
    piece_ids = [piece_id for piece_id, _ in _cut(letter.letter_id, letter.size_bytes)]
    # A body that was stored before the organization of its letter came into being has none.
    owners = [letter.organization_id, None]
    rows = database[BODIES].find({"_id": {"$in": piece_ids}, "organization_id": {"$in": owners}}, session=session)
    pieces = {row["_id"]: row["data"] async for row in rows}
    return b"".join(pieces[piece_id] for piece_id in piece_ids)


async def mark_redriven(database: Database, session: MongoSession, letter: DeadLetter, *, by: str) -> bool:
    """Note that the letter was sent again; False if that was noted before."""
    marked = await database[NAME].update_one(
        {"_id": letter.letter_id, "organization_id": letter.organization_id, "redriven_at": None},
        {"$set": {"redriven_at": datetime.now(UTC), "redriven_by": by}},
        session=session,
    )
    return marked.matched_count == 1


async def mark_discarded(database: Database, session: MongoSession, letter: DeadLetter, *, by: str) -> bool:
    """Note that the letter is not to be sent again; False if it is not open."""
    marked = await database[NAME].update_one(
        {"_id": letter.letter_id, "organization_id": letter.organization_id, **_OPEN},
        {"$set": {"discarded_at": datetime.now(UTC), "discarded_by": by}},
        session=session,
    )
    return marked.matched_count == 1


async def mark_all_discarded(
    database: Database, session: MongoSession, visible: Visible, *, letter_ids: Sequence[str], by: str
) -> int:
    """Note that the letters are not to be sent again; return how many of them were open."""
    marked = await database[NAME].update_many(
        {"_id": {"$in": list(letter_ids)}, **_seen_by(visible), **_OPEN},
        {"$set": {"discarded_at": datetime.now(UTC), "discarded_by": by}},
        session=session,
    )
    return marked.modified_count


def _matching(visible: Visible, wanted: LetterFilter) -> Row:
    given = {"topic": wanted.topic, "reason": wanted.reason}
    query = _seen_by(visible) | {name: value for name, value in given.items() if value is not None}
    if wanted.letter_ids is not None:
        query["_id"] = {"$in": list(wanted.letter_ids)}
    if wanted.is_open is not None:
        query |= _OPEN if wanted.is_open else {"$nor": [_OPEN]}
    return query


def _seen_by(visible: Visible) -> Row:
    return {"organization_id": {"$in": list(visible)}}


def _pieces(letter_id: str, value: bytes) -> dict[str, bytes]:
    return {piece_id: value[start : start + _PIECE_BYTES] for piece_id, start in _cut(letter_id, len(value))}


def _cut(letter_id: str, size_bytes: int) -> list[tuple[str, int]]:
    """Return id and start of each piece of a body."""
    return [(f"{letter_id}/{start}", start) for start in range(0, size_bytes, _PIECE_BYTES)]
