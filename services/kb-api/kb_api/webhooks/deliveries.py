"""`webhook_deliveries`: one event for one webhook, until seven days after it was delivered or given up.

A delivery that waits is claimed by moving the time at which it is due: until then no other process takes it. After a
crash it is due again, so a receiver may get an event twice, and recognizes it by its id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument

from kb_api.outcome_events.event_log import ListedEvent
from kb_api.webhooks.webhook_rows import Webhook, WebhookKey
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.rows import RowMapper

NAME = "webhook_deliveries"
TRIED_FOR: Final = timedelta(days=1)
"""Time for which a delivery is tried."""
AFTER_PAUSE: Final = timedelta(hours=1)
"""Time after a pause of the receiver for which a delivery that waited is still tried."""
PAUSED_FOR: Final = timedelta(days=2)
"""Limit of the time by which pauses of the receiver prolong `TRIED_FOR`."""
KEPT: Final = timedelta(days=7)
CLAIMED_FOR: Final = timedelta(seconds=60)
"""Time after which a delivery that was claimed is due again: longer than an attempt."""
_IS_WAITING: Final = {"waiting": {"$exists": True}}
INDEXES = [
    IndexModel([("waiting", ASCENDING), ("due_at", ASCENDING)], partialFilterExpression=_IS_WAITING),
    IndexModel([("give_up_at", ASCENDING)], partialFilterExpression=_IS_WAITING),
    IndexModel([("organization_id", ASCENDING), ("webhook_id", ASCENDING), ("_id", DESCENDING)]),
    IndexModel([("expires_at", ASCENDING)], expireAfterSeconds=0),
]
WORK: Final[Sequence[Row]] = (
    {"operationType": "insert"},
    {"updateDescription.updatedFields.waiting": {"$exists": True}},
)
"""Changes after which there may be a delivery to attempt."""


class DeliveryState(StrEnum):
    WAITING = "waiting"
    """It will be tried, for the first time or again."""
    DELIVERED = "delivered"
    DEAD = "dead"
    """It is not tried any more: the receiver did not take it in time."""


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    delivery_id: str
    organization_id: str
    webhook_id: str
    event_id: str
    event_type: str
    state: DeliveryState
    attempts: int
    """Number of attempts, without those that the receiver put off."""
    created_at: datetime
    give_up_at: datetime
    due_at: datetime | None = None
    """Time of the next attempt; None unless it waits."""
    last_status: int | None = None
    """HTTP status of the last answer; None if none came."""
    last_error: str | None = None
    """Slug of what went wrong at the last attempt; None if nothing did."""
    attempted_at: datetime | None = None
    body: str = ""
    """Content of the request: the event as JSON."""


@dataclass(frozen=True, slots=True)
class DueWebhook:
    """Webhook with a delivery that is due."""

    key: WebhookKey
    since: datetime


_DELIVERIES: Final = RowMapper(
    WebhookDelivery, names={"delivery_id": "_id"}, convert={"delivery_id": str, "state": DeliveryState}
)


async def add(database: Database, session: MongoSession, new: Sequence[tuple[Webhook, ListedEvent, str, str]]) -> None:
    """Add deliveries of events with their ids and bodies."""
    now = datetime.now(UTC)
    rows = [
        {
            "organization_id": webhook.organization_id,
            "webhook_id": webhook.webhook_id,
            "event_id": event_id,
            "event_type": event.type,
            "body": body,
            "attempts": 0,
            "created_at": now,
            **_waiting(webhook.webhook_id, now),
        }
        for webhook, event, event_id, body in new
    ]
    await database[NAME].insert_many(rows, session=session)


def _waiting(webhook_id: str, now: datetime) -> Row:
    give_up_at = now + TRIED_FOR
    return {
        "state": DeliveryState.WAITING,
        "waiting": webhook_id,
        "due_at": now,
        "give_up_at": give_up_at,
        "expires_at": give_up_at + KEPT,
    }


async def find_due_webhooks(database: Database) -> list[DueWebhook]:
    """Return the webhooks with deliveries that are due, each with the oldest of these times."""
    stages: list[Row] = [
        {"$match": {"waiting": {"$gt": ""}}},
        {"$sort": {"waiting": ASCENDING, "due_at": ASCENDING}},
        {
            "$group": {
                "_id": "$waiting",
                "due_at": {"$first": "$due_at"},
                "organization_id": {"$first": "$organization_id"},
            }
        },
    ]
    now = datetime.now(UTC)
    rows = await database[NAME].aggregate(stages)
    return [
        DueWebhook(WebhookKey(row["organization_id"], row["_id"]), row["due_at"])
        async for row in rows
        if row["due_at"] <= now
    ]


async def claim(database: Database, key: WebhookKey) -> WebhookDelivery | None:
    """Return a delivery that is due, and let no other process have it until `CLAIMED_FOR` has passed."""
    now = datetime.now(UTC)
    row = await database[NAME].find_one_and_update(
        {"waiting": key.webhook_id, "due_at": {"$lte": now}, "organization_id": key.organization_id},
        {"$set": {"due_at": now + CLAIMED_FOR, "attempted_at": now}, "$inc": {"attempts": 1}},
        sort=[("due_at", ASCENDING)],
        return_document=ReturnDocument.AFTER,
    )
    return None if row is None else _DELIVERIES.read(row)


async def finish(database: Database, delivery: WebhookDelivery, *, status: int) -> None:
    """Record that the receiver has taken a delivery."""
    fields = {"state": DeliveryState.DELIVERED, "last_status": status, "last_error": None, "expires_at": _expiry()}
    await _end(database, _claimed(delivery), fields)


async def fail(
    database: Database, delivery: WebhookDelivery, *, status: int | None, error: str, again_at: datetime | None
) -> None:
    """Record a failed attempt; without a time for another one, the delivery is dead."""
    fields: Row = {"last_status": status, "last_error": error}
    if again_at is not None:
        await database[NAME].update_one(_claimed(delivery), {"$set": {**fields, "due_at": again_at}})
    else:
        await _end(database, _claimed(delivery), {**fields, "state": DeliveryState.DEAD, "expires_at": _expiry()})


async def put_off(
    database: Database, delivery: WebhookDelivery, *, status: int | None, error: str, again_at: datetime
) -> None:
    """Record an attempt that does not count, because the receiver wants events later."""
    fields = {"last_status": status, "last_error": error, "due_at": again_at}
    await database[NAME].update_one(_claimed(delivery), {"$set": fields, "$inc": {"attempts": -1}})


async def keep_through_pause(database: Database, key: WebhookKey, *, until: datetime) -> None:
    """Give up no delivery while its receiver pauses, or before there was time to send it afterwards."""
    tried_until = until + AFTER_PAUSE
    would_end = {"waiting": key.webhook_id, "organization_id": key.organization_id, "give_up_at": {"$lt": tried_until}}
    # A delivery that waits expires when `KEPT` has passed since its first `give_up_at`.
    latest = {"$subtract": ["$expires_at", int((KEPT - PAUSED_FOR).total_seconds() * 1000)]}
    prolonged = {"$max": ["$give_up_at", {"$min": [tried_until, latest]}]}
    await database[NAME].update_many(would_end, [{"$set": {"give_up_at": prolonged}}])


def _claimed(delivery: WebhookDelivery) -> Row:
    # Another process may have claimed it since, if this one was stopped for a minute.
    return {
        "_id": ObjectId(delivery.delivery_id),
        "organization_id": delivery.organization_id,
        "due_at": delivery.due_at,
        "state": DeliveryState.WAITING,
    }


def _expiry() -> datetime:
    return datetime.now(UTC) + KEPT


async def _end(database: Database, query: Row, fields: Row) -> int:
    ended = {"$set": fields, "$unset": {"waiting": True, "due_at": True}}
    return (await database[NAME].update_many(query, ended)).modified_count


async def give_up_late(database: Database) -> int:
    """Mark deliveries as dead that have waited for too long; return their number."""
    fields = {"state": DeliveryState.DEAD, "expires_at": _expiry()}
    return await _end(database, {"give_up_at": {"$lt": datetime.now(UTC)}, "waiting": {"$exists": True}}, fields)


async def give_up_all(database: Database, key: WebhookKey, *, error: str) -> int:
    """Mark all deliveries of a webhook as dead that wait; return their number."""
    query = {"waiting": key.webhook_id, "organization_id": key.organization_id}
    fields = {"state": DeliveryState.DEAD, "last_error": error, "expires_at": _expiry()}
    return await _end(database, query, fields)


async def delete_all(database: Database, key: WebhookKey) -> None:
    await database[NAME].delete_many({"organization_id": key.organization_id, "webhook_id": key.webhook_id})


async def find_page(
    database: Database, key: WebhookKey, *, state: DeliveryState | None, before: str | None, limit: int
) -> list[WebhookDelivery]:
    """Return a page of deliveries, newest first: those that are older than the delivery `before`."""
    query: dict[str, Any] = {"organization_id": key.organization_id, "webhook_id": key.webhook_id}
    if state is not None:
        query["state"] = state
    if before is not None:
        query["_id"] = {"$lt": ObjectId(before)}
    rows = database[NAME].find(query, {"body": False}).sort("_id", DESCENDING).limit(limit)
    return [_DELIVERIES.read(row) async for row in rows]


async def redeliver(
    database: Database, session: MongoSession, key: WebhookKey, *, delivery_id: str
) -> WebhookDelivery | None:
    """Let a delivery be tried again for a day, whatever became of it; None if there is no such delivery."""
    if not ObjectId.is_valid(delivery_id):
        return None
    row = await database[NAME].find_one_and_update(
        {
            "_id": ObjectId(delivery_id),
            "organization_id": key.organization_id,
            "webhook_id": key.webhook_id,
        },
        {"$set": {**_waiting(key.webhook_id, datetime.now(UTC)), "attempts": 0}},
        session=session,
        return_document=ReturnDocument.AFTER,
    )
    return None if row is None else _DELIVERIES.read(row)
