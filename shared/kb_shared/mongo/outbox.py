"""`outbox`: messages committed with the change they tell of, sent after it.

Within one `ordering` (a document in a KB, say) messages are sent by rising `seq`. Writers of one ordering follow one
another through a row they all write, so a lower `seq` is never committed after a higher one. Sent rows stay seven
days and can be sent again.

A message that Kafka refuses for good is set aside: its row stays for 90 days from then on, with the reason, and those
after it in its ordering are sent. An operator can have it sent again, which is after them.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel

from kb_contracts.cloudevents import Payload, encode
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.majority import MAJORITY

NAME = "outbox"
BUCKETS = 16
UNSENDABLE_KEPT_FOR: Final = timedelta(days=90)
_SET_ASIDE: Final = False
"""In `sent_at` of what is set aside: not null, so not in the relay's index; no time, so it never expires by this field.

An index of another filter in place of the relay's would have to be built, and the old one dropped, on each deployment.
"""
_IS_UNSENDABLE: Final = {"unsendable_at": {"$exists": True}}
INDEXES = [
    IndexModel(
        [("bucket", ASCENDING), ("ordering", ASCENDING), ("seq", ASCENDING), ("_id", ASCENDING)],
        partialFilterExpression={"sent_at": None},
    ),
    IndexModel([("sent_at", ASCENDING)], expireAfterSeconds=7 * 24 * 3600),
    IndexModel(
        [("unsendable_at", ASCENDING)], sparse=True, expireAfterSeconds=int(UNSENDABLE_KEPT_FOR.total_seconds())
    ),
    IndexModel(
        [("organization_id", ASCENDING), ("unsendable_at", DESCENDING), ("_id", ASCENDING)],
        partialFilterExpression=_IS_UNSENDABLE,
    ),
]

Visible = Collection[str | None]
"""Organizations whose messages may be seen; None stands for messages that can't be told to be anybody's."""


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    id: ObjectId
    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] | None
    """None: those of every message of ours."""
    ordering: str
    traceparent: str


@dataclass(frozen=True, slots=True)
class Unsendable:
    """A message that was set aside, without what it holds."""

    message_id: str
    organization_id: str | None
    """None if it can't be told whose it is."""
    document_id: str | None
    topic: str
    reason: str
    size_bytes: int
    """Size of the whole record: key, value, headers and what the batch adds."""
    traceparent: str
    created_at: datetime
    unsendable_at: datetime | None
    """None once it is to be sent again."""
    redriven_at: datetime | None
    redriven_by: str | None


@dataclass(frozen=True, slots=True)
class New:
    """A message to be sent if the transaction that adds it commits."""

    payload: Payload
    topic: str
    key: str
    ordering: str
    seq: int
    source: str
    traceparent: str


async def add(database: Database, session: MongoSession, messages: Sequence[New]) -> None:
    rows = [
        {
            "topic": message.topic,
            "key": message.key,
            "value": encode(message.payload, source=message.source),
            "traceparent": message.traceparent,
            **_unsent(message.ordering, message.seq),
        }
        for message in messages
    ]
    await database[NAME].insert_many(rows, session=session)


async def add_as_it_was(
    database: Database,
    session: MongoSession,
    *,
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes]],
    ordering: str,
    traceparent: str,
) -> None:
    """Send a record that came once, byte for byte."""
    row = {
        "topic": topic,
        "key": key,
        "value": value,
        "headers": [list(header) for header in headers],
        "traceparent": traceparent,
        **_unsent(ordering, 0),
    }
    await database[NAME].insert_one(row, session=session)


def _unsent(ordering: str, seq: int) -> Row:
    return {
        "ordering": ordering,
        "seq": seq,
        "bucket": hashlib.sha256(ordering.encode()).digest()[0] % BUCKETS,
        "created_at": datetime.now(UTC),
        "sent_at": None,
    }


async def unsent(database: Database, buckets: Sequence[int], *, limit: int) -> list[OutboxMessage]:
    """Return the next messages of `buckets`, in the order they must be sent: one ordering is in one bucket.

    Only what a majority has: what a failover can take back must not be published.
    """
    rows = (
        database[NAME]
        .with_options(read_concern=MAJORITY)
        .find({"bucket": {"$in": list(buckets)}, "sent_at": None})
        # As the index has them. Without the bucket, sixteen scans are merged: eight times the CPU, at every look.
        .sort([("bucket", ASCENDING), ("ordering", ASCENDING), ("seq", ASCENDING), ("_id", ASCENDING)])
        .limit(limit)
    )
    return [_message(row) async for row in rows]


def _message(row: Row) -> OutboxMessage:
    key, headers = row["key"], row.get("headers")
    return OutboxMessage(
        id=row["_id"],
        topic=row["topic"],
        key=key.encode() if isinstance(key, str) else key,
        value=row["value"],
        headers=None if headers is None else tuple((name, value) for name, value in headers),
        ordering=row["ordering"],
        traceparent=row["traceparent"],
    )


async def mark_sent(database: Database, ids: Collection[ObjectId]) -> None:
    await database[NAME].update_many({"_id": {"$in": list(ids)}}, {"$set": {"sent_at": datetime.now(UTC)}})


async def send_again(database: Database) -> int:
    """Mark what was sent as unsent: after a broker has lost its messages. Consumers must take doubles."""
    changed = await database[NAME].update_many({"sent_at": {"$type": "date"}}, {"$set": {"sent_at": None}})
    return changed.modified_count


async def count_unsent(database: Database) -> int:
    return await database[NAME].count_documents({"sent_at": None})


async def set_aside(
    database: Database,
    session: MongoSession,
    message_id: ObjectId,
    *,
    reason: str,
    size_bytes: int,
    organization_id: str | None,
    document_id: str | None,
) -> bool:
    """Keep a message from being sent, and list it with its reason; False if it does not wait to be sent any more."""
    changed = await database[NAME].update_one(
        {"_id": message_id, "sent_at": None},
        {
            "$set": {
                "sent_at": _SET_ASIDE,
                "unsendable_at": datetime.now(UTC),
                "reason": reason,
                "size_bytes": size_bytes,
                "organization_id": organization_id,
                "document_id": document_id,
            }
        },
        session=session,
    )
    return changed.matched_count == 1


async def unsendable_page(
    database: Database, visible: Visible, *, topic: str | None, reason: str | None, skip: int, limit: int
) -> tuple[list[Unsendable], int]:
    """Return what is set aside, the last first, and how much of it there is in all."""
    query: Row = {**_seen_by(visible), **_IS_UNSENDABLE}
    query |= {name: value for name, value in (("topic", topic), ("reason", reason)) if value is not None}
    last_first = [("unsendable_at", DESCENDING), ("_id", ASCENDING)]
    rows = database[NAME].find(query, _WITHOUT_CONTENT).sort(last_first).skip(skip).limit(limit)
    return [_unsendable(row) async for row in rows], await database[NAME].count_documents(query)


async def unsendable_of_document(database: Database, organization_id: str, document_id: str) -> list[Unsendable]:
    """Return what is set aside of a document's events, the last first."""
    query = {"organization_id": organization_id, "document_id": document_id, **_IS_UNSENDABLE}
    rows = database[NAME].find(query, _WITHOUT_CONTENT).sort([("unsendable_at", DESCENDING)])
    return [_unsendable(row) async for row in rows]


async def redrive(database: Database, visible: Visible, message_id: ObjectId, *, by: str) -> Unsendable | None:
    """Let a message that is set aside be sent again, and return it; one that was redriven before as it is.

    None if there is none that may be seen.
    """
    mine = {"_id": message_id, **_seen_by(visible)}
    await database[NAME].update_one(
        {**mine, **_IS_UNSENDABLE},
        {
            "$set": {"sent_at": None, "redriven_at": datetime.now(UTC), "redriven_by": by},
            "$unset": {"unsendable_at": True},
        },
    )
    row = await database[NAME].find_one({**mine, "redriven_at": {"$exists": True}}, _WITHOUT_CONTENT)
    return None if row is None else _unsendable(row)


async def count_unsendable(database: Database) -> int:
    return await database[NAME].count_documents(_IS_UNSENDABLE)


def _seen_by(visible: Visible) -> Row:
    return {"organization_id": {"$in": list(visible)}}


_WITHOUT_CONTENT: Final = {"key": False, "value": False, "headers": False}


def _unsendable(row: Row) -> Unsendable:
    return Unsendable(
        message_id=str(row["_id"]),
        organization_id=row["organization_id"],
        document_id=row["document_id"],
        topic=row["topic"],
        reason=row["reason"],
        size_bytes=row["size_bytes"],
        traceparent=row["traceparent"],
        created_at=row["created_at"],
        unsendable_at=row.get("unsendable_at"),
        redriven_at=row.get("redriven_at"),
        redriven_by=row.get("redriven_by"),
    )
