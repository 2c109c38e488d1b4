from collections.abc import Sequence
from datetime import datetime

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.api_keys import ApiKeyList, ApiKeyView, CreatedApiKey, KeyScope
from kb_contracts.api.model import MessageResponse


class AsyncApiKeys(AsyncResource):
    """API keys of the organization."""

    @operation
    def create(
        self,
        *,
        name: str,
        scopes: Sequence[KeyScope],
        expires_at: datetime | str | Unset | None = UNSET,
        kb_ids: Sequence[str] | Unset | None = UNSET,
    ) -> ApiCall[CreatedApiKey]:
        """Create a key. Only this answer contains the whole key."""
        return ApiCall(
            "POST",
            "/api-keys",
            CreatedApiKey,
            body=without_unset({"name": name, "scopes": scopes, "expires_at": expires_at, "kb_ids": kb_ids}),
        )

    @operation
    def revoke(self, key_id: str) -> ApiCall[MessageResponse]:
        """Revoke a key; it is refused from now on."""
        return ApiCall("DELETE", "/api-keys/{key_id}", MessageResponse, ids={"key_id": key_id})

    @listing
    def list(self, *, skip: int | None = None, limit: int | None = None) -> PageCall[ApiKeyList, ApiKeyView]:
        """Return a page of the keys, without their secrets."""
        return PageCall(
            "GET", "/api-keys", ApiKeyList, query={"skip": skip, "limit": limit}, items=lambda page: page.api_keys
        )
