"""Entities: who and what the knowledge of an organization is about."""

from typing import Annotated, Final, TypeAlias

from pydantic import Field, StringConstraints

from kb_contracts.api.model import StrictModel
from kb_contracts.knowledge.properties import Properties

ANY_ENTITY: Final = "*"
"""Value of `entity_id` in the metadata of chunks of entries that apply to all entities."""
GLOBAL_RECORD_ID: Final = "global"
"""Identifier of the one record of an organization that applies to all entities."""

EntityId: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,40}:[A-Za-z0-9._@+:-]{1,160}$")]
"""Identifier in the form `type:name`, such as `user:alice`."""
EntityType: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
EntityRecordId: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^(global|[A-Za-z0-9_-]{1,40}:[A-Za-z0-9._@+:-]{1,160})$")
]
"""Identifier of an entity, or `global`."""


class Entity(StrictModel):
    """An entity with its properties. The entity `global` is the record that applies to all."""

    entity_id: EntityRecordId
    entity_type: EntityType
    properties: Properties = Field(default_factory=dict)
