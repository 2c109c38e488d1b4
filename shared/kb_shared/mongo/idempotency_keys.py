"""`idempotency_keys`: requests with an `Idempotency-Key` and their answers, so that a repeated one takes effect once.

A request holds its row by a lease while it is carried out. Its transaction writes the row, too: of two requests with
the same key, one whose lease ended can't commit after the other has taken the row over.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pymongo import ASCENDING, IndexModel, ReturnDocument
from pymongo.errors import DuplicateKeyError

from kb_shared.errors import TransientError
from kb_shared.mongo.database import MAX_ATTEMPTS, Database, MongoSession, Row
from kb_shared.mongo.rows import RowMapper

NAME = "idempotency_keys"
KEPT: Final = timedelta(hours=24)
INDEXES = [
    IndexModel([("organization_id", ASCENDING)]),
    IndexModel([("created_at", ASCENDING)], expireAfterSeconds=int(KEPT.total_seconds())),
]


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """Identifies a request that may be sent again."""

    organization_id: str
    given: str = field(repr=False)
    """Value of the header."""

    @property
    def row_id(self) -> str:
        # A hash, because callers may put anything into the header.
        return f"{self.organization_id}/{hashlib.sha256(self.given.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """Answer to the first request, for those that repeat it."""

    status: int
    body: bytes = field(repr=False)
    """JSON."""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_final: bool = True
    """False if the answer that the request gets at its end replaces this one."""


_ANSWERS: Final = RowMapper(StoredAnswer, convert={"body": bytes})


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """The first request with a key."""

    request_hash: str
    """Hash of everything that a repeated request has in common with the first."""
    owner: str
    """Process and request that carries it out."""
    created_at: datetime
    answer: StoredAnswer | None = None
    outcomes: Mapping[int, bytes] = field(default_factory=dict)
    """Outcomes of the entries of a batch that were carried out so far, as JSON by their positions."""


def _outcomes(stored: Mapping[str, bytes]) -> dict[int, bytes]:
    return {int(position): bytes(outcome) for position, outcome in stored.items()}


_ROWS: Final = RowMapper(IdempotentRequest, convert={"answer": _ANSWERS.read, "outcomes": _outcomes})


async def claim(
    database: Database, key: IdempotencyKey, *, request_hash: str, owner: str, lease: timedelta
) -> IdempotentRequest:
    """Store a request as the first one with its key, or take over one that no process carries out any more.

    Returns the first request; its `owner` is that of the caller if the caller is to carry it out.
    """
    is_free = {
        "$or": [
            {"$eq": [{"$type": "$owner"}, "missing"]},
            {
                "$and": [
                    {"$lt": ["$until", "$$NOW"]},
                    {"$eq": [{"$ifNull": ["$answer", None]}, None]},
                    {"$eq": ["$request_hash", {"$literal": request_hash}]},
                ]
            },
        ]
    }
    values = {"owner": owner, "request_hash": request_hash, "created_at": datetime.now(UTC)}
    stages: list[Row] = [
        {"$set": {"_is_free": is_free}},
        {
            "$set": {name: {"$cond": ["$_is_free", {"$literal": value}, f"${name}"]} for name, value in values.items()}
            | {"until": {"$cond": ["$_is_free", {"$add": ["$$NOW", _milliseconds(lease)]}, "$until"]}}
        },
        {"$unset": "_is_free"},
    ]
    for _ in range(MAX_ATTEMPTS):
        try:
            row: Row | None = await database[NAME].find_one_and_update(
                _key(key), stages, upsert=True, return_document=ReturnDocument.AFTER
            )
        except DuplicateKeyError:
            continue  # another request inserted it at the same time
        if row is not None:
            return _ROWS.read(row)
    raise TransientError(f"gave up after {MAX_ATTEMPTS} conflicting writes")


async def renew(database: Database, key: IdempotencyKey, *, owner: str, lease: timedelta) -> None:
    await database[NAME].update_one(
        {**_key(key), "owner": owner}, [{"$set": {"until": {"$add": ["$$NOW", _milliseconds(lease)]}}}]
    )


async def write_in_transaction(
    database: Database, session: MongoSession, key: IdempotencyKey, *, owner: str, answer: StoredAnswer | None
) -> bool:
    """Write the row in the transaction of the request's effect; False if another request has taken it over."""
    return await _write(
        database, session, key, owner=owner, fields={} if answer is None else {"answer": _to_row(answer)}
    )


async def write_outcome_in_transaction(
    database: Database, session: MongoSession, key: IdempotencyKey, *, owner: str, position: int, outcome: bytes
) -> bool:
    """Do what `write_in_transaction` does for one entry of a batch, with its outcome."""
    return await _write(database, session, key, owner=owner, fields={f"outcomes.{position}": outcome})


async def _write(
    database: Database, session: MongoSession, key: IdempotencyKey, *, owner: str, fields: Mapping[str, Any]
) -> bool:
    fenced = {"fenced_by": owner, **fields}
    written = await database[NAME].update_one({**_key(key), "owner": owner}, {"$set": fenced}, session=session)
    return written.matched_count == 1


async def store_answer(database: Database, key: IdempotencyKey, *, owner: str, answer: StoredAnswer) -> None:
    """Store the answer that a request got, unless a final one was stored with its effect."""
    await database[NAME].update_one(
        {**_key(key), "owner": owner, "answer.is_final": {"$ne": True}},
        {"$set": {"answer": _to_row(answer)}, "$unset": {"outcomes": True}},
    )


async def release(database: Database, key: IdempotencyKey, *, owner: str) -> None:
    """Forget a request that failed before it had an effect, so that the same key can be used again."""
    await database[NAME].delete_one({**_key(key), "owner": owner, "answer": None, "outcomes": None})


def _key(key: IdempotencyKey) -> Row:
    return {"_id": key.row_id, "organization_id": key.organization_id}


def _to_row(answer: StoredAnswer) -> Row:
    return {
        "status": answer.status,
        "body": answer.body,
        "headers": dict(answer.headers),
        "is_final": answer.is_final,
    }


def _milliseconds(lease: timedelta) -> int:
    return int(lease.total_seconds() * 1000)
