"""`webhooks`: addresses of organizations to which events are sent, with encrypted secrets."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pymongo import ASCENDING, IndexModel

from kb_api.outcome_events.event_log import EventFilter
from kb_shared.errors import NotFound
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.rows import RowMapper
from kb_shared.mongo.stored_time import now
from kb_shared.secrets.key_ring import Sealed

NAME = "webhooks"
PROBED_FOR: Final = timedelta(seconds=60)
"""Time after which another process may probe the receiver after a pause: longer than an attempt."""
_HAS_PAUSE: Final = {"paused_until": {"$gt": datetime(1970, 1, 1, tzinfo=UTC)}}
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("enabled", ASCENDING)]),
    IndexModel([("paused_until", ASCENDING)], partialFilterExpression=_HAS_PAUSE),
]


@dataclass(frozen=True, slots=True)
class WebhookKey:
    organization_id: str
    webhook_id: str

    def query(self) -> Row:
        return {"_id": self.webhook_id, "organization_id": self.organization_id}


@dataclass(frozen=True, slots=True)
class WebhookSecret:
    """Secret that signs, encrypted."""

    sealed: Sealed
    created_at: datetime
    expires_at: datetime | None = None
    """Time from which it does not sign any more; None for the current one."""


@dataclass(frozen=True, slots=True)
class Webhook:
    webhook_id: str
    organization_id: str
    url: str
    description: str
    event_types: tuple[str, ...] | None
    """Types of events that are sent; None: all."""
    kb_ids: tuple[str, ...] | None
    """KBs whose events are sent; None: all events of the organization."""
    enabled: bool
    secrets: tuple[WebhookSecret, ...]
    """The current one, and before its end the one before."""
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str
    disabled_at: datetime | None = None
    """Time at which it was disabled by an answer of its receiver; None if it was not."""
    disabled_reason: str | None = None
    paused_until: datetime | None = None
    """Time until which its receiver wants nothing; past until one attempt has shown that it takes events again."""
    pauses: int = 0
    """Number of pauses since an attempt that the receiver did not put off."""

    @property
    def key(self) -> WebhookKey:
        return WebhookKey(self.organization_id, self.webhook_id)

    def pause_ends_at(self, time: datetime) -> datetime | None:
        """Return when the pause ends that lasts at this time; None if none does."""
        return self.paused_until if self.paused_until is not None and self.paused_until > time else None

    @property
    def wanted(self) -> EventFilter:
        return EventFilter(
            types=None if self.event_types is None else frozenset(self.event_types),
            kb_ids=None if self.kb_ids is None else frozenset(self.kb_ids),
        )


def _tuple(values: Collection[str]) -> tuple[str, ...]:
    return tuple(values)


_SEALED: Final = RowMapper(Sealed)
_SECRETS: Final = RowMapper(WebhookSecret, convert={"sealed": _SEALED.read})
_WEBHOOKS: Final = RowMapper(
    Webhook,
    names={"webhook_id": "_id"},
    convert={
        "event_types": _tuple,
        "kb_ids": _tuple,
        "secrets": lambda rows: tuple(_SECRETS.read(row) for row in rows),
    },
)


async def insert(database: Database, session: MongoSession, webhook: Webhook) -> None:
    row = asdict(webhook)
    await database[NAME].insert_one({"_id": row.pop("webhook_id"), **row}, session=session)


async def get(database: Database, key: WebhookKey, *, session: MongoSession | None = None) -> Webhook:
    """Return a webhook. Raises NotFound."""
    webhook = await find(database, key, session=session)
    if webhook is None:
        raise NotFound("webhook")
    return webhook


async def find(database: Database, key: WebhookKey, *, session: MongoSession | None = None) -> Webhook | None:
    row = await database[NAME].find_one(key.query(), session=session)
    return None if row is None else _WEBHOOKS.read(row)


async def find_page(database: Database, organization_id: str, *, skip: int, limit: int) -> tuple[list[Webhook], int]:
    """Return a page of the webhooks of an organization, oldest first, and their total number."""
    query = {"organization_id": organization_id}
    rows = database[NAME].find(query).sort("_id", ASCENDING).skip(skip).limit(limit)
    return [_WEBHOOKS.read(row) async for row in rows], await database[NAME].count_documents(query)


async def find_enabled(
    database: Database, session: MongoSession, organization_ids: Collection[str]
) -> Mapping[str, list[Webhook]]:
    """Return the enabled webhooks of organizations, by organization."""
    query = {"organization_id": {"$in": list(organization_ids)}, "enabled": True}
    found: dict[str, list[Webhook]] = {}
    async for row in database[NAME].find(query, session=session):
        webhook = _WEBHOOKS.read(row)
        found.setdefault(webhook.organization_id, []).append(webhook)
    return found


async def count(database: Database, organization_id: str) -> int:
    return await database[NAME].count_documents({"organization_id": organization_id})


async def update(database: Database, session: MongoSession, key: WebhookKey, *, fields: Mapping[str, Any]) -> Webhook:
    """Set fields of a webhook and return it. Raises NotFound."""
    await database[NAME].update_one(key.query(), {"$set": dict(fields)}, session=session)
    return await get(database, key, session=session)


async def disable(database: Database, webhook: Webhook, *, reason: str) -> Webhook | None:
    """Disable a webhook because of what its receiver answered, and return it as it was before.

    None if its address was changed since it was read: then it stays as it is.
    """
    unchanged = {**webhook.key.query(), "url": webhook.url}
    disabled = {"enabled": False, "disabled_at": datetime.now(UTC), "disabled_reason": reason}
    row = await database[NAME].find_one_and_update(unchanged, {"$set": disabled})
    return None if row is None else _WEBHOOKS.read(row)


ENDED_PAUSE: Final[Mapping[str, Any]] = {"paused_until": None, "pauses": 0, "probed_until": None}
"""Fields of a webhook without a pause."""


async def pause(database: Database, webhook: Webhook, *, until: datetime) -> None:
    """Send nothing to the receiver of a webhook until a time, unless its address was changed since it was read."""
    unchanged = {**webhook.key.query(), "url": webhook.url}
    changes = {
        # Of answers to requests at the same time, the longest pause is kept.
        "$max": {"paused_until": until},
        "$set": {"pauses": webhook.pauses + 1, "probed_until": None},
    }
    await database[NAME].update_one(unchanged, changes)


async def is_paused(database: Database, key: WebhookKey) -> bool:
    """Return whether a webhook is paused, or no attempt was made since its pause."""
    paused = {**key.query(), "paused_until": {"$ne": None}}
    return await database[NAME].find_one(paused, {"_id": True}) is not None


async def find_paused(database: Database) -> set[str]:
    """Return the ids of the webhooks, of all organizations, to which nothing is sent now."""
    later = {"$gt": datetime.now(UTC)}
    paused = {**_HAS_PAUSE, "$or": [{"paused_until": later}, {"probed_until": later}]}
    return {row["_id"] async for row in database[NAME].find(paused, {"_id": True})}


async def begin_probe(database: Database, key: WebhookKey) -> datetime | None:
    """Let this process alone make an attempt after a pause; return the token of `end_probe`, None if it may not."""
    began_at = now()
    probed_until = began_at + PROBED_FOR
    over = {**key.query(), "paused_until": {"$lte": began_at}, "probed_until": {"$not": {"$gt": began_at}}}
    updated = await database[NAME].update_one(over, {"$set": {"probed_until": probed_until}})
    return probed_until if updated.modified_count else None


async def end_probe(database: Database, key: WebhookKey, *, probe: datetime, is_over: bool) -> None:
    """Say whether the pause is over; nothing happens if the receiver was paused again since."""
    fields = ENDED_PAUSE if is_over else {"probed_until": None}
    await database[NAME].update_one({**key.query(), "probed_until": probe}, {"$set": dict(fields)})


def to_secrets_row(secrets: Collection[WebhookSecret]) -> list[Row]:
    return [asdict(secret) for secret in secrets]


async def delete(database: Database, session: MongoSession, key: WebhookKey) -> bool:
    return (await database[NAME].delete_one(key.query(), session=session)).deleted_count == 1


async def find_sealed_with_other_key(database: Database, key_id: str) -> list[Webhook]:
    """Return the webhooks of all organizations with a secret that was sealed with a key other than `key_id`."""
    rows = database[NAME].find({"secrets": {"$elemMatch": {"sealed.key_id": {"$ne": key_id}}}})
    return [_WEBHOOKS.read(row) async for row in rows]


async def replace_secrets(database: Database, webhook: Webhook, secrets: Collection[WebhookSecret]) -> None:
    """Replace the secrets of a webhook, unless they were changed since it was read."""
    unchanged = {**webhook.key.query(), "secrets": to_secrets_row(webhook.secrets)}
    await database[NAME].update_one(unchanged, {"$set": {"secrets": to_secrets_row(secrets)}})
