"""Entities: properties of what knowledge is about, and one record that applies to all of them."""

from datetime import datetime
from typing import Final

from pydantic import BaseModel, Field

from kb_contracts.api.model import NextCursor, StrictModel, example
from kb_contracts.knowledge.entities import EntityType
from kb_contracts.knowledge.properties import Properties

_ENTITY: Final = {
    "entity_id": "user:alice",
    "entity_type": "user",
    "properties": {"specialization": "turbomachinery", "team": "aero"},
    "created_at": "2026-01-31T12:00:00Z",
    "updated_at": "2026-01-31T12:00:00Z",
    "updated_by": "3f9c1d2e4b5a6978",
}


class PutEntity(StrictModel):
    """An entity as it is to be. Properties that are left out are removed."""

    model_config = example({"entity_type": "user", "properties": {"specialization": "turbomachinery", "team": "aero"}})

    entity_type: EntityType | None = Field(
        default=None, description="Kind of entity, such as `user`. Only the entity `global` may do without it."
    )
    properties: Properties = Field(default_factory=dict, description="Flat map of the properties.")


class EntityView(BaseModel):
    model_config = example(_ENTITY)

    entity_id: str
    entity_type: str
    properties: Properties
    created_at: datetime
    updated_at: datetime = Field(description="Time of the last change; equal values change nothing.")
    updated_by: str = Field(description="Id of the API key that made the last change.")


class EntityList(BaseModel):
    model_config = example({"entities": [_ENTITY], "total_count": 1, "next_cursor": None})

    entities: list[EntityView]
    total_count: int = Field(description="Number of items on all pages.")
    next_cursor: NextCursor
