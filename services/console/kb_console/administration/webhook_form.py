"""The form of a webhook: what was typed, and what the API takes."""

import secrets
from dataclasses import dataclass, field
from typing import Any, Final, cast, get_args

from starlette.datastructures import FormData

from kb_contracts.api.webhooks import WebhookEventType, WebhookView

EVENT_TYPES: Final[dict[str, str]] = {
    "document.indexed.v1": "a document can be found",
    "document.removed.v1": "a document can no longer be found",
    "document.index_failed.v1": "a document could not be indexed",
    "document.rejected.v1": "a document was refused",
    "document.outdated.v1": "something else stays than what was sent",
    "knowledge_base.created.v1": "a knowledge base was created",
    "knowledge_base.changed.v1": "a knowledge base was changed",
    "knowledge_base.deleted.v1": "a knowledge base was deleted",
    "budget.soft_exceeded.v1": "a soft limit of the budget was reached",
}
assert tuple(EVENT_TYPES) == get_args(WebhookEventType)


@dataclass(frozen=True, slots=True)
class WebhookForm:
    url: str = ""
    description: str = ""
    event_types: tuple[str, ...] = ()
    """Empty: all, as below."""
    kb_ids: tuple[str, ...] = ()
    idempotency_key: str = field(default_factory=lambda: secrets.token_hex(16))
    """Key with which a form that is sent twice creates one webhook."""

    @classmethod
    def from_form(cls, form: FormData) -> "WebhookForm":
        """Return what was typed."""
        typed = {name: value for name, value in form.items() if isinstance(value, str) and name in cls.__slots__}
        several = {name: tuple(map(str, form.getlist(name))) for name in ("event_types", "kb_ids")}
        return cls(**cast("dict[str, Any]", {**typed, **several}))

    @classmethod
    def from_webhook(cls, webhook: WebhookView) -> "WebhookForm":
        """Return the form with the present settings."""
        return cls(webhook.url, webhook.description, tuple(webhook.event_types or ()), tuple(webhook.kb_ids or ()))

    def settings(self) -> dict[str, Any]:
        """Return the arguments of the calls that create and change a webhook."""
        return {
            "url": self.url.strip(),
            "description": self.description.strip(),
            "event_types": list(self.event_types) or None,
            "kb_ids": list(self.kb_ids) or None,
        }
