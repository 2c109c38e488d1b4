from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import uuid4

from fastapi import Query

from kb_api.dependencies import Admin, Cursors, Database, Settings, WebhookSecrets, WebhookSender
from kb_api.webhooks import deliveries, webhook_rows
from kb_api.webhooks.deliveries import DeliveryState, WebhookDelivery
from kb_api.webhooks.webhook_rows import Webhook, WebhookKey, to_secrets_row
from kb_api.webhooks.webhook_secrets import rotate
from kb_contracts.api.events import OutcomeEventView
from kb_contracts.api.model import MessageResponse
from kb_contracts.api.webhooks import (
    CreateWebhook,
    UpdateWebhook,
    WantedDeliveryState,
    WebhookDeliveryList,
    WebhookDeliveryView,
    WebhookList,
    WebhookTestResult,
    WebhookView,
    WebhookWithSecret,
)
from kb_shared.concurrency.fair_queue import pause_turn
from kb_shared.errors import NotFound, RequestError
from kb_shared.http.changes import InsteadOfAnswer, commit_change
from kb_shared.http.cursors import CursorParameter, CursorScope
from kb_shared.http.model import DEFAULT_LIMIT, Limit, Skip
from kb_shared.http.problems import invalid_field, responses
from kb_shared.http.quotas import require_quota
from kb_shared.http.routing import organization_router
from kb_shared.identifiers import new_id
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.database import MongoSession
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.stored_time import now
from kb_shared.providers.public_addresses import HOW_TO_ALLOW

TEST_EVENT_TYPE = "webhook.test.v1"

router = organization_router("webhooks")


@router.post(
    "/webhooks",
    operation_id="webhooks.create",
    summary="Create a webhook",
    status_code=201,
    response_model=WebhookWithSecret,
    responses=responses("provider-keys-not-available", "quota-exceeded", "secret-shown-once"),
)
async def create(
    database: Database,
    settings: Settings,
    secrets: WebhookSecrets,
    sender: WebhookSender,
    caller: Admin,
    *,
    body: CreateWebhook,
) -> WebhookWithSecret:
    """Send the events that happen from now on to an address. The answer contains the secret that signs them."""
    await _check(database, sender, caller.organization_id, url=body.url, kb_ids=body.kb_ids)
    await require_quota(
        lambda: webhook_rows.count(database, caller.organization_id),
        settings.max_webhooks,
        things="webhooks",
        setting="KB_MAX_WEBHOOKS",
    )
    key, created_at = WebhookKey(caller.organization_id, new_id()), now()
    secret, stored = secrets.create(key, now=created_at)
    webhook = Webhook(
        webhook_id=key.webhook_id,
        organization_id=key.organization_id,
        url=body.url,
        description=body.description,
        event_types=None if body.event_types is None else tuple(body.event_types),
        kb_ids=None if body.kb_ids is None else tuple(body.kb_ids),
        enabled=body.enabled,
        secrets=(stored,),
        created_at=created_at,
        created_by=caller.key_id,
        updated_at=created_at,
        updated_by=caller.key_id,
    )

    async def store(session: MongoSession) -> None:
        await webhook_rows.insert(database, session, webhook)

    await commit_change(database, store, answer=lambda _: InsteadOfAnswer(_secret_shown_once(key)))
    return WebhookWithSecret(**_view(webhook).model_dump(), secret=secret)


@router.get("/webhooks", operation_id="webhooks.list", summary="List webhooks", response_model=WebhookList)
async def list_all(database: Database, caller: Admin, skip: Skip = 0, limit: Limit = DEFAULT_LIMIT) -> WebhookList:
    """List the webhooks of the organization, without their secrets."""
    found, total_count = await webhook_rows.find_page(database, caller.organization_id, skip=skip, limit=limit)
    return WebhookList(webhooks=[_view(webhook) for webhook in found], total_count=total_count)


@router.get("/webhooks/{webhook_id}", operation_id="webhooks.get", summary="Get a webhook", response_model=WebhookView)
async def get(database: Database, caller: Admin, webhook_id: str) -> WebhookView:
    """Return a webhook, without its secret."""
    return _view(await webhook_rows.get(database, WebhookKey(caller.organization_id, webhook_id)))


@router.put(
    "/webhooks/{webhook_id}", operation_id="webhooks.update", summary="Change a webhook", response_model=WebhookView
)
async def update(
    database: Database, sender: WebhookSender, caller: Admin, webhook_id: str, *, body: UpdateWebhook
) -> WebhookView:
    """Change fields of a webhook. Deliveries that wait go to the new address.

    `enabled: true` also enables one that was disabled because its receiver had answered 410, and ends a pause that
    the receiver has asked for, as a new address does.
    """
    key = WebhookKey(caller.organization_id, webhook_id)
    before = await webhook_rows.get(database, key)
    fields: dict[str, Any] = body.model_dump(include=body.model_fields_set)
    for name in ("url", "description", "enabled"):
        if name in fields and fields[name] is None:
            raise invalid_field(name, "must not be null")
    await _check(database, sender, caller.organization_id, url=fields.get("url"), kb_ids=fields.get("kb_ids"))

    async def store(session: MongoSession) -> Webhook:
        changed = {**fields, "updated_at": now(), "updated_by": caller.key_id}
        if "enabled" in fields:
            changed |= {"disabled_at": None, "disabled_reason": None}
        if fields.get("enabled") or fields.get("url", before.url) != before.url:
            changed |= webhook_rows.ENDED_PAUSE
        return await webhook_rows.update(database, session, key, fields=changed)

    return _view(await commit_change(database, store, answer=_view))


@router.delete(
    "/webhooks/{webhook_id}", operation_id="webhooks.delete", summary="Delete a webhook", response_model=MessageResponse
)
async def delete(database: Database, caller: Admin, webhook_id: str) -> MessageResponse:
    """Delete a webhook with its deliveries. What is being sent may still arrive."""
    key = WebhookKey(caller.organization_id, webhook_id)

    async def store(session: MongoSession) -> None:
        if not await webhook_rows.delete(database, session, key):
            raise NotFound("webhook")

    await commit_change(database, store)
    # After a crash here, they are deleted when the next one is due, and others expire.
    await deliveries.delete_all(database, key)
    return MessageResponse(message="Webhook deleted successfully")


@router.post(
    "/webhooks/{webhook_id}/rotate-secret",
    operation_id="webhooks.rotate_secret",
    summary="Replace the secret",
    response_model=WebhookWithSecret,
    responses=responses("provider-keys-not-available", "secret-shown-once"),
)
async def rotate_secret(
    database: Database, secrets: WebhookSecrets, caller: Admin, webhook_id: str
) -> WebhookWithSecret:
    """Create a new secret. For a day requests are signed with both, then with the new one only."""
    key, changed_at = WebhookKey(caller.organization_id, webhook_id), now()
    await webhook_rows.get(database, key)
    secret, stored = secrets.create(key, now=changed_at)

    async def store(session: MongoSession) -> Webhook:
        webhook = await webhook_rows.get(database, key, session=session)
        fields = {
            "secrets": to_secrets_row(rotate(webhook, stored, now=changed_at)),
            "updated_at": changed_at,
            "updated_by": caller.key_id,
        }
        return await webhook_rows.update(database, session, key, fields=fields)

    webhook = await commit_change(database, store, answer=lambda _: InsteadOfAnswer(_secret_shown_once(key)))
    return WebhookWithSecret(**_view(webhook).model_dump(), secret=secret)


@router.post(
    "/webhooks/{webhook_id}/test",
    operation_id="webhooks.test",
    summary="Send a test event",
    response_model=WebhookTestResult,
    responses=responses("provider-keys-not-available"),
)
async def send_test(
    database: Database, secrets: WebhookSecrets, sender: WebhookSender, caller: Admin, webhook_id: str
) -> WebhookTestResult:
    """Send an event of the type `webhook.test.v1` once, also to a disabled webhook, and return what came of it."""
    webhook = await webhook_rows.get(database, WebhookKey(caller.organization_id, webhook_id))
    event = OutcomeEventView(
        position=0,
        id=str(uuid4()),
        type=TEST_EVENT_TYPE,
        source="/kb/kb-api",
        time=now(),
        data={"organization_id": caller.organization_id, "webhook_id": webhook_id},
    )
    async with pause_turn():
        outcome = await sender.send(
            webhook.url,
            event.model_dump_json().encode(),
            message_id=event.id,
            secrets_in_use=secrets.open_for_request(webhook, now=datetime.now(UTC)),
        )
    return WebhookTestResult(
        delivered=outcome.error is None,
        status=outcome.status,
        error=outcome.error,
        duration_ms=round(outcome.duration_s * 1000, 1),
    )


@router.get(
    "/webhooks/{webhook_id}/deliveries",
    operation_id="webhooks.list_deliveries",
    summary="List deliveries",
    response_model=WebhookDeliveryList,
)
async def list_deliveries(
    database: Database,
    cursors: Cursors,
    caller: Admin,
    webhook_id: str,
    *,
    state: Annotated[WantedDeliveryState | None, Query(description="Only deliveries in this state.")] = None,
    cursor: CursorParameter = None,
    limit: Limit = DEFAULT_LIMIT,
) -> WebhookDeliveryList:
    """List the deliveries of a webhook, newest first. They are kept for seven days after their end."""
    key = WebhookKey(caller.organization_id, webhook_id)
    webhook = await webhook_rows.get(database, key)
    scope = CursorScope(caller.organization_id, f"deliveries of {webhook_id}", {"state": state})
    before = cursors.read(scope, cursor)
    found = await deliveries.find_page(
        database, key, state=None if state is None else DeliveryState(state), before=before, limit=limit
    )
    return WebhookDeliveryList(
        deliveries=[_delivery_view(each, webhook) for each in found],
        next_cursor=cursors.create(scope, found[-1].delivery_id) if len(found) == limit else None,
    )


@router.post(
    "/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
    operation_id="webhooks.redeliver",
    summary="Deliver again",
    response_model=WebhookDeliveryView,
)
async def redeliver(database: Database, caller: Admin, webhook_id: str, *, delivery_id: str) -> WebhookDeliveryView:
    """Try a delivery again for a day, whatever became of it. `webhook-id` is the same."""
    key = WebhookKey(caller.organization_id, webhook_id)

    async def store(session: MongoSession) -> WebhookDeliveryView:
        webhook = await webhook_rows.get(database, key, session=session)
        delivery = await deliveries.redeliver(database, session, key, delivery_id=delivery_id)
        if delivery is None:
            raise NotFound("delivery")
        return _delivery_view(delivery, webhook)

    return await commit_change(database, store, answer=lambda view: view)


async def _check(
    database: Database, sender: WebhookSender, organization_id: str, *, url: str | None, kb_ids: list[str] | None
) -> None:
    """Check what a webhook names. Raises RequestError 422 for the address, NotFound for a KB."""
    for kb_id in kb_ids or ():
        await knowledge_bases.get(database, KnowledgeBaseKey(organization_id, kb_id))
    if url is not None and not await sender.is_allowed(url):
        raise invalid_field("url", f"must be an https address of a public server; {HOW_TO_ALLOW}")


def _secret_shown_once(key: WebhookKey) -> RequestError:
    return RequestError(
        409,
        "secret-shown-once",
        f"An earlier request with this Idempotency-Key made a secret of the webhook {key.webhook_id!r}, which is not "
        "shown again. If you don't have it, POST /webhooks/{webhook_id}/rotate-secret makes another one.",
        extra={"webhook_id": key.webhook_id},
    )


def _view(webhook: Webhook) -> WebhookView:
    ends = (each.expires_at for each in webhook.secrets if each.expires_at is not None)
    return WebhookView(
        webhook_id=webhook.webhook_id,
        url=webhook.url,
        description=webhook.description,
        event_types=None if webhook.event_types is None else list(webhook.event_types),
        kb_ids=None if webhook.kb_ids is None else list(webhook.kb_ids),
        enabled=webhook.enabled,
        created_at=webhook.created_at,
        created_by=webhook.created_by,
        updated_at=webhook.updated_at,
        updated_by=webhook.updated_by,
        former_secret_expires_at=next((each for each in ends if each > now()), None),
        disabled_at=webhook.disabled_at,
        disabled_reason=webhook.disabled_reason,
        paused_until=webhook.pause_ends_at(now()),
    )


def _delivery_view(delivery: WebhookDelivery, webhook: Webhook) -> WebhookDeliveryView:
    due = [each for each in (delivery.due_at, webhook.pause_ends_at(now())) if each is not None]
    return WebhookDeliveryView(
        delivery_id=delivery.delivery_id,
        event_id=delivery.event_id,
        event_type=delivery.event_type,
        state=delivery.state.value,
        attempts=delivery.attempts,
        created_at=delivery.created_at,
        attempted_at=delivery.attempted_at,
        next_attempt_at=None if delivery.due_at is None else max(due),
        last_status=delivery.last_status,
        last_error=delivery.last_error,
    )
