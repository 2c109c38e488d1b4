"""Webhooks: addresses to which events are sent."""

from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field, StringConstraints

from kb_contracts.api.model import ObjectId, StrictModel, example

WebhookUrl = Annotated[str, StringConstraints(min_length=1, max_length=2_000, pattern=r"^[\x21-\x7e]+$")]
WebhookDescription = Annotated[str, StringConstraints(max_length=500)]
WebhookEventType = Literal[
    "document.indexed.v1",
    "document.removed.v1",
    "document.index_failed.v1",
    "document.rejected.v1",
    "document.outdated.v1",
    "knowledge_base.created.v1",
    "knowledge_base.changed.v1",
    "knowledge_base.deleted.v1",
    "budget.soft_exceeded.v1",
]
WantedDeliveryState = Literal["waiting", "delivered", "dead"]
WebhookEventTypes = Annotated[list[WebhookEventType], Field(min_length=1, max_length=20)]
WebhookKbIds = Annotated[list[ObjectId], Field(min_length=1, max_length=100)]

_WEBHOOK: Final = {
    "webhook_id": "65f1c2a3b4d5e6f708192a61",
    "url": "https://example.com/hooks/documents",
    "description": "Ticket system",
    "event_types": ["document.index_failed.v1"],
    "kb_ids": None,
    "enabled": True,
    "created_at": "2026-01-31T12:00:00Z",
    "created_by": "3f9c1d2e4b5a6978",
    "updated_at": "2026-01-31T12:00:00Z",
    "updated_by": "3f9c1d2e4b5a6978",
    "former_secret_expires_at": None,
    "disabled_at": None,
    "disabled_reason": None,
    "paused_until": None,
}
_DELIVERY: Final = {
    "delivery_id": "65f1c2a3b4d5e6f708192a62",
    "event_id": "0b6f4d0e-9d3b-4a4e-8d21-0f6a3d0c5a11",
    "event_type": "document.index_failed.v1",
    "state": "waiting",
    "attempts": 3,
    "created_at": "2026-01-31T12:00:00Z",
    "attempted_at": "2026-01-31T12:00:25Z",
    "next_attempt_at": "2026-01-31T12:01:47Z",
    "last_status": 500,
    "last_error": "refused",
}


class CreateWebhook(StrictModel):
    model_config = example({"url": "https://example.com/hooks/documents", "event_types": ["document.index_failed.v1"]})

    url: WebhookUrl = Field(description="Address that gets the events by POST: https, of a public server.")
    description: WebhookDescription = ""
    event_types: WebhookEventTypes | None = Field(default=None, description="Types of events to send; null: all.")
    kb_ids: WebhookKbIds | None = Field(
        default=None, description="Knowledge bases whose events to send; null: all events of the organization."
    )
    enabled: bool = Field(default=True, description="Whether events are sent.")


class UpdateWebhook(StrictModel):
    """Fields that are left out stay as they are."""

    model_config = example({"enabled": False})

    url: WebhookUrl | None = Field(default=None, description="Address that gets the events by POST.")
    description: WebhookDescription | None = None
    event_types: WebhookEventTypes | None = Field(default=None, description="Types of events to send; null: all.")
    kb_ids: WebhookKbIds | None = Field(
        default=None, description="Knowledge bases whose events to send; null: all events of the organization."
    )
    enabled: bool | None = Field(
        default=None, description="Whether events are sent. What waits when it becomes false is given up."
    )


class WebhookView(BaseModel):
    model_config = example(_WEBHOOK)

    webhook_id: str
    url: str = Field(description="Address that gets the events by POST.")
    description: str
    event_types: list[str] | None = Field(description="Types of events that are sent; null: all.")
    kb_ids: list[str] | None = Field(description="Knowledge bases whose events are sent; null: all events.")
    enabled: bool = Field(description="Whether events are sent.")
    created_at: datetime
    created_by: str = Field(description="Id of the API key that created it.")
    updated_at: datetime
    updated_by: str = Field(description="Id of the API key that made the last change.")
    former_secret_expires_at: datetime | None = Field(
        description="Time until which requests are also signed with the secret before the last rotation; null: they "
        "are not."
    )
    disabled_at: datetime | None = Field(
        description="Time at which it was disabled by an answer of its receiver; null if it was not."
    )
    disabled_reason: str | None = Field(
        description="`receiver-gone`: the receiver answered 410. `PUT` with `enabled: true` enables the webhook again."
    )
    paused_until: datetime | None = Field(
        description="Time until which nothing is sent, because the receiver answered 429 or 503. Events wait "
        "meanwhile. Null: it has not paused."
    )


class WebhookWithSecret(WebhookView):
    model_config = example({**_WEBHOOK, "secret": "whsec_..."})

    secret: str = Field(description="Secret that signs the requests. It is shown once.")


class WebhookList(BaseModel):
    model_config = example({"webhooks": [_WEBHOOK], "total_count": 1})

    webhooks: list[WebhookView] = Field(description="Webhooks of the organization, oldest first.")
    total_count: int = Field(description="Number of items on all pages.")


class WebhookTestResult(BaseModel):
    model_config = example({"delivered": False, "status": None, "error": "timeout", "duration_ms": 10000.0})

    delivered: bool = Field(description="Whether the receiver answered with 2xx.")
    status: int | None = Field(description="HTTP status of the answer; null if none came.")
    error: str | None = Field(
        description="Slug of what went wrong; null if it was delivered. With a status: `put-off` (429 or 503), "
        "`refused` (any other than 2xx). Without: `name-not-resolved` (also to an address that is not public), "
        "`connection-refused`, `connection-closed`, `host-unreachable`, `no-http-answer`; `timeout-` and the phase: "
        "`connect`, `tls`, `send`, `answer`; `tls-` and the check: `certificate-expired`, `certificate-not-yet-valid`, "
        "`certificate-self-signed`, `certificate-invalid`, `authority-unknown`, `host-name`, `protocol`."
    )
    duration_ms: float


class WebhookDeliveryView(BaseModel):
    model_config = example(_DELIVERY)

    delivery_id: str
    event_id: str = Field(description="Id of the event: the header `webhook-id` of all attempts.")
    event_type: str
    state: Literal["waiting", "delivered", "dead"] = Field(
        description="`waiting` for an attempt; `delivered`; `dead`: given up after a day (three, if the "
        "receiver put it off), or because the webhook was disabled."
    )
    attempts: int = Field(
        description="Number of attempts so far, without those that the receiver put off with `Retry-After`."
    )
    created_at: datetime
    attempted_at: datetime | None = Field(description="Time of the last attempt; null before the first.")
    next_attempt_at: datetime | None = Field(description="Time of the next attempt; null if there is none.")
    last_status: int | None = Field(description="HTTP status of the last answer; null if none came.")
    last_error: str | None = Field(
        description="Slug of what went wrong at the last attempt, as in `POST .../test`, or `webhook-disabled`; null: "
        "nothing."
    )


class WebhookDeliveryList(BaseModel):
    model_config = example({"deliveries": [_DELIVERY], "next_cursor": None})

    deliveries: list[WebhookDeliveryView] = Field(description="Deliveries, newest first.")
    next_cursor: str | None = Field(description="`cursor` of the next page; null after the last page.")
