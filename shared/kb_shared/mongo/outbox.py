"""`outbox`: messages that are committed with the change they announce, and published afterwards.

Within one `ordering` (such as a document in a KB) messages are published by rising `seq`. Writers of one ordering all
write the same row first, so a lower `seq` is never committed after a higher one. Published rows are kept for seven days
and can be published again.

An event of `kb-events` is also unlisted until kb-api has given it a position in `GET /events`, whether it was sent or
not.

A message that Kafka refuses for good is unsendable: its row is kept for 90 days with the reason, and the messages after
it in its ordering are published. An operator can redrive it; it is then published after them.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel, UpdateOne

from kb_contracts.cloudevents import Payload, encode
from kb_contracts.topics import KB_EVENTS
from kb_shared.mongo.database import Database, MongoSession, Row, upsert_all
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.majority import MAJORITY
from kb_shared.mongo.rows import RowMapper
from kb_shared.mongo.time_position import TimePosition

NAME = "outbox"
BUCKETS = 16
UNSENDABLE_LIFETIME: Final = timedelta(days=90)
_UNSENDABLE: Final = False
"""Value of `sent_at` of an unsendable message. It is not null, so the message is not in the index of the relay, and not
a time, so the message does not expire by this field. Another index would have to be built on each deployment."""
_IS_UNSENDABLE: Final = {"unsendable_at": {"$exists": True}}
INDEXES = [
    IndexModel(
        [("bucket", ASCENDING), ("ordering", ASCENDING), ("seq", ASCENDING), ("_id", ASCENDING)],
        partialFilterExpression={"sent_at": None},
    ),
    IndexModel([("sent_at", ASCENDING)], expireAfterSeconds=7 * 24 * 3600),
    IndexModel(
        [("unsendable_at", ASCENDING)], sparse=True, expireAfterSeconds=int(UNSENDABLE_LIFETIME.total_seconds())
    ),
    IndexModel(
        [("organization_id", ASCENDING), ("unsendable_at", DESCENDING), ("_id", ASCENDING)],
        partialFilterExpression=_IS_UNSENDABLE,
    ),
    IndexModel(
        [("unlisted", ASCENDING), ("ordering", ASCENDING), ("seq", ASCENDING), ("_id", ASCENDING)],
        partialFilterExpression={"unlisted": True},
    ),
]

_FIRST: Final = 100
WORK: Final[Sequence[Row]] = (
    {"operationType": "insert"},
    {"updateDescription.updatedFields.sent_at": {"$type": "null"}},
)
"""Changes after which there may be a message to publish."""

Visible = Collection[str | None]
"""Organizations whose messages may be seen; None stands for messages of unknown organization."""


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    id: ObjectId
    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None
    """Headers of the message; None means the default ones."""
    ordering: str
    traceparent: str


@dataclass(frozen=True, slots=True)
class UnlistedEvent:
    """Event of `kb-events` without a position in `GET /events` yet."""

    id: ObjectId
    value: bytes


@dataclass(frozen=True, slots=True)
class Unsendable:
    """Unsendable message, without its content."""

    message_id: str
    organization_id: str | None
    """Organization of the message; None if it is unknown."""
    document_id: str | None
    topic: str
    reason: str
    size_bytes: int
    """Size of the whole record: key, value, headers and what the batch adds."""
    traceparent: str
    created_at: datetime
    unsendable_at: datetime | None
    """Time at which Kafka refused it; None after a redrive."""
    redriven_at: datetime | None
    redriven_by: str | None


@dataclass(frozen=True, slots=True)
class NewMessage:
    """Message to publish if the transaction that adds it commits."""

    payload: Payload
    topic: str
    key: str
    ordering: str
    seq: int
    source: str
    traceparent: str
    event_id: str | None = None
    """Id of the CloudEvent, if the sender wants to recognize it in `document.rejected.v1`; by default a random one."""


def _key(stored: str | bytes) -> bytes:
    return stored.encode() if isinstance(stored, str) else stored


def _headers(stored: Iterable[tuple[str, bytes | None]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, value) for name, value in stored)


_MESSAGES: Final = RowMapper(
    OutboxMessage,
    names={"id": "_id"},
    convert={"key": _key, "headers": _headers},
    # A message without headers of its own has none in its row. Without a trace, receivers begin one.
    defaults={"headers": None, "traceparent": ""},
)
_UNLISTED_EVENTS: Final = RowMapper(UnlistedEvent, names={"id": "_id"})
_UNSENDABLE_MESSAGES: Final = RowMapper(
    Unsendable,
    names={"message_id": "_id"},
    convert={"message_id": str},
    defaults={
        "organization_id": None,
        "document_id": None,
        "traceparent": "",
        "unsendable_at": None,
        "redriven_at": None,
        "redriven_by": None,
    },
)


async def add(database: Database, session: MongoSession, messages: Sequence[NewMessage]) -> None:
    await database[NAME].insert_many([_new_row(message) for message in messages], session=session)


async def add_once(database: Database, messages: Mapping[ObjectId, NewMessage]) -> None:
    """Add messages outside of a transaction, except those that were added before under the same id."""
    await upsert_all(
        database[NAME],
        [
            UpdateOne({"_id": message_id}, {"$setOnInsert": _new_row(message)}, upsert=True)
            for message_id, message in messages.items()
        ],
    )


@dataclass(frozen=True, slots=True)
class ReceivedRecord:
    """Record to send with the exact bytes with which it was received."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    traceparent: str


async def add_records(
    database: Database, session: MongoSession, records: Sequence[ReceivedRecord], *, ordering: str
) -> None:
    """Add records, at least one, which are sent in this order."""
    rows = [
        {
            "topic": record.topic,
            "key": record.key,
            "value": record.value,
            "headers": [list(header) for header in record.headers],
            "traceparent": record.traceparent,
            **_unsent(ordering, seq),
        }
        for seq, record in enumerate(records)
    ]
    await database[NAME].insert_many(rows, session=session)


def _new_row(message: NewMessage) -> Row:
    return {
        "topic": message.topic,
        "key": message.key,
        "value": encode(message.payload, source=message.source, event_id=message.event_id),
        "traceparent": message.traceparent,
        **({"unlisted": True} if message.topic == KB_EVENTS.name else {}),
        **_unsent(message.ordering, message.seq),
    }


def _unsent(ordering: str, seq: int) -> Row:
    return {
        "ordering": ordering,
        "seq": seq,
        "bucket": hashlib.sha256(ordering.encode()).digest()[0] % BUCKETS,
        "created_at": datetime.now(UTC),
        "sent_at": None,
    }


async def find_unsent(database: Database, buckets: Sequence[int], *, limit: int) -> list[OutboxMessage]:
    """Return the next messages of `buckets` in the order of publishing. An ordering is in one bucket.

    Only messages that a majority has: a failover could roll back others, so they must not be published.
    """
    rows = (
        database[NAME]
        .with_options(read_concern=MAJORITY)
        .find({"bucket": {"$in": list(buckets)}, "sent_at": None})
        # The order of the index. Without the bucket, MongoDB merges 16 scans, which takes eight times the CPU.
        .sort([("bucket", ASCENDING), ("ordering", ASCENDING), ("seq", ASCENDING), ("_id", ASCENDING)])
        .limit(limit)
    )
    return [_MESSAGES.read(row) async for row in rows]


async def mark_sent(database: Database, ids: Collection[ObjectId]) -> None:
    await database[NAME].update_many({"_id": {"$in": list(ids)}}, {"$set": {"sent_at": datetime.now(UTC)}})


async def find_unlisted(database: Database, *, limit: int) -> list[UnlistedEvent]:
    """Return events to list, in an order that keeps those of one ordering in theirs. Only what a majority has."""
    rows = (
        database[NAME]
        .with_options(read_concern=MAJORITY)
        .find({"unlisted": True}, {"value": 1})
        .sort([("unlisted", ASCENDING), ("ordering", ASCENDING), ("seq", ASCENDING), ("_id", ASCENDING)])
        .limit(limit)
    )
    return [_UNLISTED_EVENTS.read(row) async for row in rows]


async def mark_listed(database: Database, session: MongoSession, ids: Collection[ObjectId]) -> int:
    """Mark events as listed; return how many of them were not."""
    changed = await database[NAME].update_many(
        {"_id": {"$in": list(ids)}, "unlisted": True}, {"$unset": {"unlisted": True}}, session=session
    )
    return changed.modified_count


async def is_any_unsent(database: Database, organization_id: str) -> bool:
    """Return whether a message of an organization waits to be sent."""
    # "0" follows "/".
    within = {"$gte": f"{organization_id}/", "$lt": f"{organization_id}0"}
    mine = {"sent_at": None, "$or": [{"key": organization_id}, {"key": within}]}
    return await database[NAME].find_one(mine, {"_id": 1}) is not None


async def send_again(database: Database, *, topic: str | None = None) -> int:
    """Mark all published messages, or those of a topic, as unsent. Consumers must accept duplicates."""
    published: Row = {"sent_at": {"$type": "date"}, **({} if topic is None else {"topic": topic})}
    changed = await database[NAME].update_many(published, {"$set": {"sent_at": None}})
    return changed.modified_count


async def find_old_buckets(database: Database, *, age: timedelta) -> set[int]:
    """Return the buckets with messages that are unsent for longer than `age`. Unsendable messages do not count."""
    old = {"$lt": ["$created_at", {"$subtract": ["$$NOW", int(age.total_seconds() * 1000)]}]}
    # Not `distinct`, which does not know `$$NOW`.
    stages: list[Row] = [{"$match": {"sent_at": None, "$expr": old}}, {"$group": {"_id": "$bucket"}}]
    return {row["_id"] async for row in await database[NAME].aggregate(stages)}


def build_lease_name(bucket: int) -> str:
    """Build the name of the lease that the relay of a bucket holds."""
    return f"outbox/{bucket}"


async def count_unsent(database: Database) -> int:
    return await database[NAME].count_documents({"sent_at": None})


async def find_oldest_unsent(database: Database) -> datetime | None:
    """Return when the oldest unsent message was written; None if there is none.

    Exact for up to 100 unsent messages. The index keeps messages that are equal in it in the order in which they were
    stored, so with more of them, or after a restore, the time is that of one of the first.
    """
    first = (
        database[NAME].find({"sent_at": None}, {"created_at": 1, "_id": 0}).hint([("sent_at", ASCENDING)]).limit(_FIRST)
    )
    return min([row["created_at"] async for row in first], default=None)


async def mark_unsendable(
    database: Database,
    session: MongoSession,
    message_id: ObjectId,
    *,
    reason: str,
    size_bytes: int,
    organization_id: str | None,
    document_id: str | None,
) -> bool:
    """Mark a message as unsendable, with the reason; False if it is not waiting to be published any more."""
    changed = await database[NAME].update_one(
        {"_id": message_id, "sent_at": None},
        {
            "$set": {
                "sent_at": _UNSENDABLE,
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


async def find_unsendable_page(
    database: Database,
    visible: Visible,
    *,
    topic: str | None,
    reason: str | None,
    after: TimePosition | None = None,
    skip: int,
    limit: int,
) -> tuple[list[Unsendable], int]:
    """Return a page of unsendable messages, newest first, after a position if it is given, and the number of all."""
    query: Row = {**_seen_by(visible), **_IS_UNSENDABLE}
    query |= {name: value for name, value in (("topic", topic), ("reason", reason)) if value is not None}
    last_first = [("unsendable_at", DESCENDING), ("_id", ASCENDING)]
    later = {} if after is None else after.build_condition("unsendable_at", ObjectId(after.row_id))
    rows = database[NAME].find({**query, **later}, _WITHOUT_CONTENT).sort(last_first).skip(skip).limit(limit)
    return [_UNSENDABLE_MESSAGES.read(row) async for row in rows], await database[NAME].count_documents(query)


async def count_unsendable_of(database: Database, organization_id: str) -> int:
    """Count the unsendable messages of an organization."""
    return await database[NAME].count_documents({"organization_id": organization_id, **_IS_UNSENDABLE})


async def find_unsendable_of_document(database: Database, key: DocumentKey) -> list[Unsendable]:
    """Return the unsendable events of a document, newest first."""
    query = {"organization_id": key.organization_id, "document_id": key.document_id, **_IS_UNSENDABLE}
    rows = database[NAME].find(query, _WITHOUT_CONTENT).sort([("unsendable_at", DESCENDING)])
    return [_UNSENDABLE_MESSAGES.read(row) async for row in rows]


async def redrive(database: Database, visible: Visible, message_id: ObjectId, *, by: str) -> Unsendable | None:
    """Let an unsendable message be published again, and return it; a message that was redriven before is unchanged.

    None if there is no such message that may be seen.
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
    return None if row is None else _UNSENDABLE_MESSAGES.read(row)


async def count_unsendable(database: Database) -> int:
    return await database[NAME].count_documents(_IS_UNSENDABLE)


def _seen_by(visible: Visible) -> Row:
    return {"organization_id": {"$in": list(visible)}}


_WITHOUT_CONTENT: Final = {"key": False, "value": False, "headers": False}
