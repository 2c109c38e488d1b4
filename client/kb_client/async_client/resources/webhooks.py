from collections.abc import Sequence
from typing import Literal

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.model import MessageResponse
from kb_contracts.api.webhooks import (
    WebhookDeliveryList,
    WebhookDeliveryView,
    WebhookList,
    WebhookTestResult,
    WebhookView,
    WebhookWithSecret,
)


class AsyncWebhooks(AsyncResource):
    """Addresses to which events are sent. `kb_client.webhooks` verifies what a receiver gets."""

    @operation
    def create(
        self,
        url: str,
        *,
        description: str | Unset = UNSET,
        event_types: Sequence[str] | Unset | None = UNSET,
        kb_ids: Sequence[str] | Unset | None = UNSET,
        enabled: bool | Unset = UNSET,
    ) -> ApiCall[WebhookWithSecret]:
        """Send the events that happen from now on to an address. The answer contains the secret that signs them."""
        return ApiCall(
            "POST",
            "/webhooks",
            WebhookWithSecret,
            body=without_unset(
                {
                    "url": url,
                    "description": description,
                    "event_types": event_types,
                    "kb_ids": kb_ids,
                    "enabled": enabled,
                }
            ),
        )

    @listing
    def list(self, *, skip: int | None = None, limit: int | None = None) -> PageCall[WebhookList, WebhookView]:
        """Return a page of the webhooks, oldest first."""
        return PageCall(
            "GET",
            "/webhooks",
            WebhookList,
            query={"skip": skip, "limit": limit},
            items=lambda page: page.webhooks,
        )

    @operation
    def get(self, webhook_id: str) -> ApiCall[WebhookView]:
        """Return a webhook, without its secret."""
        return ApiCall("GET", "/webhooks/{webhook_id}", WebhookView, ids={"webhook_id": webhook_id})

    @operation
    def update(
        self,
        webhook_id: str,
        *,
        url: str | Unset = UNSET,
        description: str | Unset = UNSET,
        event_types: Sequence[str] | Unset | None = UNSET,
        kb_ids: Sequence[str] | Unset | None = UNSET,
        enabled: bool | Unset = UNSET,
    ) -> ApiCall[WebhookView]:
        """Change fields of a webhook."""
        return ApiCall(
            "PUT",
            "/webhooks/{webhook_id}",
            WebhookView,
            ids={"webhook_id": webhook_id},
            body=without_unset(
                {
                    "url": url,
                    "description": description,
                    "event_types": event_types,
                    "kb_ids": kb_ids,
                    "enabled": enabled,
                }
            ),
        )

    @operation
    def delete(self, webhook_id: str) -> ApiCall[MessageResponse]:
        """Delete a webhook with its deliveries."""
        return ApiCall("DELETE", "/webhooks/{webhook_id}", MessageResponse, ids={"webhook_id": webhook_id})

    @operation
    def rotate_secret(self, webhook_id: str) -> ApiCall[WebhookWithSecret]:
        """Create a new secret. For a day requests are signed with both."""
        return ApiCall(
            "POST", "/webhooks/{webhook_id}/rotate-secret", WebhookWithSecret, ids={"webhook_id": webhook_id}
        )

    @operation
    def test(self, webhook_id: str) -> ApiCall[WebhookTestResult]:
        """Send a test event once, and return what came of it."""
        return ApiCall("POST", "/webhooks/{webhook_id}/test", WebhookTestResult, ids={"webhook_id": webhook_id})

    @listing
    def list_deliveries(
        self,
        webhook_id: str,
        *,
        state: Literal["waiting", "delivered", "dead"] | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> PageCall[WebhookDeliveryList, WebhookDeliveryView]:
        """Return a page of the deliveries of a webhook, newest first."""
        return PageCall(
            "GET",
            "/webhooks/{webhook_id}/deliveries",
            WebhookDeliveryList,
            ids={"webhook_id": webhook_id},
            query={"state": state, "cursor": cursor, "limit": limit},
            items=lambda page: page.deliveries,
        )

    @operation
    def redeliver(self, webhook_id: str, *, delivery_id: str) -> ApiCall[WebhookDeliveryView]:
        """Try a delivery again for a day."""
        return ApiCall(
            "POST",
            "/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
            WebhookDeliveryView,
            ids={"webhook_id": webhook_id, "delivery_id": delivery_id},
        )
