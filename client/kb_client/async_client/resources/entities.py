from collections.abc import Mapping
from typing import Any

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_client.json_encoding import encode_metadata
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.entities import EntityList, EntityView
from kb_contracts.api.model import MessageResponse


class AsyncEntities(AsyncResource):
    """Entities: properties of what knowledge is about. The entity `global` applies to all."""

    @operation
    def put(
        self,
        entity_id: str,
        *,
        entity_type: str | Unset | None = UNSET,
        properties: Mapping[str, Any] | Unset = UNSET,
    ) -> ApiCall[EntityView]:
        """Create an entity, or replace its type and all of its properties.

        Args:
            entity_id: id in the form `type:name`, such as `user:alice`, or `global`.
            entity_type: kind of entity; only `global` may do without it.
            properties: strings, numbers, booleans and times.
        """
        return ApiCall(
            "PUT",
            "/entities/{entity_id}",
            EntityView,
            ids={"entity_id": entity_id},
            body=without_unset({"entity_type": entity_type, "properties": encode_metadata(properties)}),
        )

    @operation
    def get(self, entity_id: str) -> ApiCall[EntityView]:
        """Return an entity."""
        return ApiCall("GET", "/entities/{entity_id}", EntityView, ids={"entity_id": entity_id})

    @operation
    def delete(self, entity_id: str) -> ApiCall[MessageResponse]:
        """Delete an entity. Its entries and its node in the graph stay."""
        return ApiCall("DELETE", "/entities/{entity_id}", MessageResponse, ids={"entity_id": entity_id})

    @listing
    def list(
        self, *, entity_type: str | None = None, cursor: str | None = None, limit: int | None = None
    ) -> PageCall[EntityList, EntityView]:
        """Return a page of the entities, or of those of a type, by their ids."""
        return PageCall(
            "GET",
            "/entities",
            EntityList,
            query={"entity_type": entity_type, "cursor": cursor, "limit": limit},
            items=lambda page: page.entities,
        )
