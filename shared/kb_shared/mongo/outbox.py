"""`outbox`: messages committed with the change they tell of, sent after it.

Within one `ordering` (a document in a KB, say) messages are sent by rising `seq`. Writers of one ordering follow one
another through a row they all write, so a lower `seq` is never committed after a higher one. Sent rows stay seven
days and can be sent again.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bson import ObjectId
from pymongo import ASCENDING, IndexModel

from kb_shared.contracts.cloudevents import Payload, encode
from kb_shared.mongo.database import Database, Row, Session

NAME = "outbox"
BUCKETS = 16
INDEXES = [
    IndexModel(
        [("bucket", ASCENDING), ("ordering", ASCENDING), ("seq", ASCENDING), ("_id", ASCENDING)],
        partialFilterExpression={"sent_at": None},
    ),
    IndexModel([("sent_at", ASCENDING)], expireAfterSeconds=7 * 24 * 3600),
]


@dataclass(frozen=True, slots=True)
class Message:
    id: ObjectId
    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] | None
    """None: those of every message of ours."""
    traceparent: str


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


async def add(database: Database, session: Session, messages: Sequence[New]) -> None:
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
    session: Session,
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


async def unsent(database: Database, buckets: Sequence[int], *, limit: int) -> list[Message]:
    """The next messages of `buckets`, in the order they must be sent: one ordering is in one bucket."""
    rows = (
        database[NAME]
        .find({"bucket": {"$in": list(buckets)}, "sent_at": None})
        # As the index has them. Without the bucket, sixteen scans are merged: eight times the CPU, at every look.
        .sort([("bucket", ASCENDING), ("ordering", ASCENDING), ("seq", ASCENDING), ("_id", ASCENDING)])
        .limit(limit)
    )
    return [_message(row) async for row in rows]


def _message(row: Row) -> Message:
    key, headers = row["key"], row.get("headers")
    return Message(
        id=row["_id"],
        topic=row["topic"],
        key=key.encode() if isinstance(key, str) else key,
        value=row["value"],
        headers=None if headers is None else tuple((name, value) for name, value in headers),
        traceparent=row["traceparent"],
    )


async def mark_sent(database: Database, ids: Collection[ObjectId]) -> None:
    await database[NAME].update_many({"_id": {"$in": list(ids)}}, {"$set": {"sent_at": datetime.now(UTC)}})


async def send_again(database: Database) -> int:
    """Mark what was sent as unsent: after a broker has lost its messages. Consumers must take doubles."""
    changed = await database[NAME].update_many({"sent_at": {"$ne": None}}, {"$set": {"sent_at": None}})
    return changed.modified_count


async def count_unsent(database: Database) -> int:
    return await database[NAME].count_documents({"sent_at": None})
