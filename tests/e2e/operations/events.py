"""Checks of events, and of webhooks to which they are sent."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from kb_client.problems import NotFoundError
from kb_client.webhooks import verify
from kb_contracts.api.webhooks import WebhookWithSecret
from kb_shared.mongo.database import Row
from kb_shared.secrets.key_ring import KeyRing, Sealed
from tests.e2e.operations.comparison import assert_holds, assert_shows, undisturbed
from tests.e2e.operations.indexing_jobs import paused
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import StockedOrganization
from tests.integration.kb_api.webhook_receiver import Receiver
from tests.waiting import until

CHANGED = "knowledge_base.changed.v1"
DELIVERY = {"delivery_id": "_id", "next_attempt_at": "due_at"}


@checks("events.list")
async def check_list_events(organization: StockedOrganization) -> None:
    async def read() -> list[Any]:
        return [event async for event in organization.client.events.list.iterate(limit=100)]

    events, rows = await undisturbed(read, lambda: organization.rows("events"))
    happened = {"knowledge_base.created.v1", "document.indexed.v1", "document.index_failed.v1"}
    assert happened <= {row["type"] for row in rows}
    for event, row in zip(events, sorted(rows, key=lambda row: int(row["position"])), strict=True):
        envelope = json.loads(row["event"])
        time = type(event).model_validate(event.model_dump() | {"time": envelope["time"]}).time
        assert_shows(event, envelope | {"position": row["position"], "time": time})
    page = await organization.client.events.list(limit=1)
    assert (page.next_after, page.has_more) == (events[0].position, True)


@dataclass(frozen=True, slots=True)
class ReceivedWebhook:
    """A webhook with the server that it sends to."""

    receiver: Receiver
    created: WebhookWithSecret

    @property
    def webhook_id(self) -> str:
        return self.created.webhook_id


@asynccontextmanager
async def new_webhook(organization: StockedOrganization, *, enabled: bool = False) -> AsyncIterator[ReceivedWebhook]:
    """Create a webhook for changes of the changing KB, and disable it in the end."""
    async with Receiver().serve() as receiver:
        created = await organization.client.webhooks.create(
            receiver.url, event_types=[CHANGED], kb_ids=[organization.changing_kb_id], enabled=enabled
        )
        yield ReceivedWebhook(receiver, created)
        await organization.until_none("webhook_deliveries", webhook_id=created.webhook_id, state="waiting")
        if enabled:
            await organization.client.webhooks.update(created.webhook_id, enabled=False)


def shown_webhook(row: Row) -> Row:
    ends = [secret["expires_at"] for secret in row["secrets"] if secret["expires_at"] is not None]
    return {**row, "webhook_id": row["_id"], "former_secret_expires_at": ends[0] if ends else None}


async def stored_webhook(organization: StockedOrganization, webhook_id: str) -> Row:
    return shown_webhook(await organization.row("webhooks", _id=webhook_id))


def unsealed_secrets(organization: StockedOrganization, row: Row) -> list[str]:
    ring = KeyRing.parse(organization.running.system.stack.environment["KB_PROVIDER_KEYS"])
    return [
        ring.open(
            Sealed(**secret["sealed"]),
            organization_id=organization.organization_id,
            provider=f"webhook {row['_id']}",
        )
        for secret in row["secrets"]
    ]


@checks("webhooks.create")
async def check_create_webhook(organization: StockedOrganization) -> None:
    given: dict[str, Any] = {
        "url": "https://127.0.0.1/hook",
        "description": "Created",
        "event_types": [CHANGED],
        "kb_ids": [organization.kb_id],
        "enabled": False,
    }
    answer = await organization.client.webhooks.create(**given)
    stored = await stored_webhook(organization, answer.webhook_id)
    assert_shows(answer, stored | {"secret": answer.secret})
    assert_holds(stored, created_by=organization.key_id, **given)
    assert unsealed_secrets(organization, stored) == [answer.secret]


@checks("webhooks.list")
async def check_list_webhooks(organization: StockedOrganization) -> None:
    async with new_webhook(organization) as webhook:
        answer = await organization.client.webhooks.list(limit=100)
    rows = await organization.rows("webhooks")
    assert webhook.webhook_id in {row["_id"] for row in rows}
    assert answer.total_count == len(rows)
    for shown, row in zip(answer.webhooks, rows, strict=True):
        assert_shows(shown, shown_webhook(row))


@checks("webhooks.get")
async def check_get_webhook(organization: StockedOrganization) -> None:
    async with new_webhook(organization) as webhook:
        answer = await organization.client.webhooks.get(webhook.webhook_id)
    assert_shows(answer, await stored_webhook(organization, webhook.webhook_id))


@checks("webhooks.update")
async def check_update_webhook(organization: StockedOrganization) -> None:
    async with new_webhook(organization) as webhook:
        given: dict[str, Any] = {"description": "Updated", "event_types": None, "kb_ids": [organization.strict_kb_id]}
        answer = await organization.client.webhooks.update(webhook.webhook_id, **given)
    stored = await stored_webhook(organization, webhook.webhook_id)
    assert_shows(answer, stored)
    assert_holds(stored, url=webhook.receiver.url, enabled=False, **given)


@checks("webhooks.delete")
async def check_delete_webhook(organization: StockedOrganization) -> None:
    async with new_webhook(organization) as webhook:
        answer = await organization.client.webhooks.delete(webhook.webhook_id)
    assert "deleted" in answer.message
    assert not await organization.rows("webhooks", _id=webhook.webhook_id)
    with pytest.raises(NotFoundError):
        await organization.client.webhooks.get(webhook.webhook_id)


@checks("webhooks.rotate_secret")
async def check_rotate_secret(organization: StockedOrganization) -> None:
    async with new_webhook(organization) as webhook:
        answer = await organization.client.webhooks.rotate_secret(webhook.webhook_id)
    stored = await stored_webhook(organization, webhook.webhook_id)
    assert_shows(answer, stored | {"secret": answer.secret})
    assert answer.former_secret_expires_at is not None
    assert unsealed_secrets(organization, stored) == [answer.secret, webhook.created.secret]


@checks("webhooks.test")
async def check_test_webhook(organization: StockedOrganization) -> None:
    async with new_webhook(organization) as webhook:
        answer = await organization.client.webhooks.test(webhook.webhook_id)
    assert (answer.delivered, answer.status, answer.error) == (True, 204, None)
    [(headers, body)] = webhook.receiver.received
    event = verify(body, headers, secrets=[webhook.created.secret])
    assert event["data"] == {"organization_id": organization.organization_id, "webhook_id": webhook.webhook_id}
    assert not await organization.rows("webhook_deliveries", webhook_id=webhook.webhook_id)


@asynccontextmanager
async def delivered_webhook(organization: StockedOrganization) -> AsyncIterator[tuple[ReceivedWebhook, list[Row]]]:
    """Yield a webhook with its two deliveries, the newest first: a KB was paused and resumed."""
    async with new_webhook(organization, enabled=True) as webhook:
        async with paused(organization):
            pass

        async def are_delivered() -> bool:
            own = {"webhook_id": webhook.webhook_id, "state": "delivered"}
            return len(await organization.rows("webhook_deliveries", **own)) == 2

        await until(are_delivered, what="two deliveries")
        yield webhook, (await organization.rows("webhook_deliveries", webhook_id=webhook.webhook_id))[::-1]


@checks("webhooks.list_deliveries")
async def check_list_deliveries(organization: StockedOrganization) -> None:
    async with delivered_webhook(organization) as (webhook, rows):
        answer = await organization.client.webhooks.list_deliveries(webhook.webhook_id)
        for delivery, row in zip(answer.deliveries, rows, strict=True):
            assert_shows(delivery, row, names=DELIVERY)
        assert {delivery.event_id for delivery in answer.deliveries} == set(webhook.receiver.ids)


@checks("webhooks.redeliver")
async def check_redeliver(organization: StockedOrganization) -> None:
    async with delivered_webhook(organization) as (webhook, (row, _)):
        answer = await organization.client.webhooks.redeliver(webhook.webhook_id, delivery_id=str(row["_id"]))
        requested = {"state": "waiting", "attempts": 0, "due_at": answer.next_attempt_at}
        assert_shows(answer, row | requested, names=DELIVERY)
        await until(lambda: webhook.receiver.ids.count(row["event_id"]) == 2, what="it is sent again")
        again = await organization.until_row("webhook_deliveries", _id=row["_id"], state="delivered")
        assert_holds(again, attempts=1, last_status=204, event_id=answer.event_id)
