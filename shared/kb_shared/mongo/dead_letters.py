"""`dead_letters`: records that could not be handled, with their organization if it is known, and their redrive.

The id of a letter is computed from its record and position, so a letter that is filed twice is stored once. Bodies are
in `dead_letter_bodies`, in pieces that fit into a row, so lists don't read them. Both are deleted after 90 days.
"""

from collections.abc import Collection, Iterable
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
_WAITING: Final = {"redriven_at": None}
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("filed_at", DESCENDING)]),
    IndexModel([("filed_at", ASCENDING)], expireAfterSeconds=_TTL),
    IndexModel([("redriven_at", ASCENDING), ("topic", ASCENDING)], partialFilterExpression=_WAITING),
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
    headers: tuple[tuple[str, bytes], ...]
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


@dataclass(frozen=True, slots=True)
class WaitingLetters:
    """Letters of a topic that were not sent again."""

    letters: int
    oldest: datetime
    """Time at which the oldest of them was filed."""


def _headers(stored: Iterable[tuple[str, bytes]]) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, value) for name, value in stored)


_ROWS: Final = RowMapper(DeadLetter, names={"letter_id": "_id"}, convert={"headers": _headers})


async def file(database: Database, letter: DeadLetter, body: bytes | None) -> None:
    """Store a letter and its body. Filing it again changes nothing."""
    owner = {"organization_id": letter.organization_id}
    pieces = _pieces(letter.letter_id, body or b"")
    if pieces:
        about = {"letter_id": letter.letter_id, "filed_at": letter.filed_at}
        await upsert_all(
            database[BODIES],
            [
                UpdateOne({"_id": piece_id, **owner}, {"$setOnInsert": {**about, "data": data}}, upsert=True)
                for piece_id, data in pieces.items()
            ],
        )
    key = {"_id": letter.letter_id, **owner}
    fields = {name: value for name, value in asdict(letter).items() if name not in ("letter_id", "organization_id")}
    fields["headers"] = [[name, value] for name, value in letter.headers]
    await upsert_all(database[NAME], [UpdateOne(key, {"$setOnInsert": fields}, upsert=True)])


async def find_page(
    database: Database,
    visible: Visible,
    *,
    topic: str | None,
    reason: str | None,
    after: TimePosition | None = None,
    skip: int,
    limit: int,
) -> tuple[list[DeadLetter], int]:
    """Return a page of letters, newest first, of those after a position if it is given, and the number of all."""
    query: Row = _seen_by(visible)
    query |= {name: value for name, value in (("topic", topic), ("reason", reason)) if value is not None}
    newest_first = [("filed_at", DESCENDING), ("_id", ASCENDING)]
    later = {} if after is None else after.build_condition("filed_at", after.row_id)
    rows = database[NAME].find({**query, **later}).sort(newest_first).skip(skip).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)


async def find(
    database: Database, visible: Visible, letter_id: str, *, session: MongoSession | None = None
) -> DeadLetter | None:
    row = await database[NAME].find_one({"_id": letter_id, **_seen_by(visible)}, session=session)
    return _ROWS.read(row) if row else None


async def count_waiting(database: Database) -> dict[str, WaitingLetters]:
    """Count the letters of all organizations that were not sent again, by topic; a topic without any is absent."""
    stages: list[Row] = [
        {"$match": _WAITING},
        {"$group": {"_id": "$topic", "letters": {"$sum": 1}, "oldest": {"$min": "$filed_at"}}},
    ]
    rows = await database[NAME].aggregate(stages)
    return {row["_id"]: WaitingLetters(row["letters"], row["oldest"]) async for row in rows}


async def count_waiting_of(database: Database, organization_id: str) -> int:
    """Count the letters of an organization that were not sent again."""
    return await database[NAME].count_documents({"organization_id": organization_id, **_WAITING})


async def read_body(database: Database, letter: DeadLetter, session: MongoSession | None = None) -> bytes | None:
    """Return the value of the record, unchanged; None if it had no value."""
    if letter.size_bytes is None:
        return None
    piece_ids = [piece_id for piece_id, _ in _cut(letter.letter_id, letter.size_bytes)]
    rows = database[BODIES].find(
        {"_id": {"$in": piece_ids}, "organization_id": letter.organization_id}, session=session
    )
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


def _seen_by(visible: Visible) -> Row:
    return {"organization_id": {"$in": list(visible)}}


def _pieces(letter_id: str, value: bytes) -> dict[str, bytes]:
    return {piece_id: value[start : start + _PIECE_BYTES] for piece_id, start in _cut(letter_id, len(value))}


def _cut(letter_id: str, size_bytes: int) -> list[tuple[str, int]]:
    """Return id and start of each piece of a body."""
    return [(f"{letter_id}/{start}", start) for start in range(0, size_bytes, _PIECE_BYTES)]
