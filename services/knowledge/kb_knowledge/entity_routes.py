from typing import Annotated, Final

from fastapi import Query

from kb_contracts.api.entities import EntityList, EntityView, PutEntity
from kb_contracts.api.model import MessageResponse
from kb_contracts.knowledge.entities import GLOBAL_RECORD_ID, Entity, EntityRecordId
from kb_knowledge.content_check import refuse_sensitive_properties
from kb_knowledge.dependencies import Cursors, Database, Reader, Settings, Writer
from kb_shared.http.cursors import CursorParameter, CursorScope
from kb_shared.http.model import DEFAULT_LIMIT, Limit
from kb_shared.http.problems import invalid_field, responses
from kb_shared.http.quotas import require_quota
from kb_shared.http.routing import organization_router
from kb_shared.mongo import entities
from kb_shared.mongo.entities import EntityKey, EntityRecord

_LIST: Final = "entities"

router = organization_router("entities")


@router.put(
    "/entities/{entity_id}",
    operation_id="entities.put",
    summary="Create or replace an entity",
    responses=responses("quota-exceeded", "sensitive-content"),
)
async def put(
    database: Database, settings: Settings, caller: Writer, entity_id: EntityRecordId, *, body: PutEntity
) -> EntityView:
    """Store what is known of an entity. The properties of the entity `global` apply to all entities."""
    refuse_sensitive_properties(body.properties)
    key = EntityKey(caller.organization_id, entity_id)
    if await entities.find(database, key) is None:
        await require_quota(
            lambda: entities.count(database, caller.organization_id),
            settings.max_entities,
            things="entities",
            setting="KB_MAX_ENTITIES",
        )
    entity = Entity(entity_id=entity_id, entity_type=_type_of(entity_id, body), properties=body.properties)
    await entities.put_all(database, caller.organization_id, [entity], by=caller.key_id)
    return _view(await entities.get(database, key))


def _type_of(entity_id: str, body: PutEntity) -> str:
    if body.entity_type is not None:
        return body.entity_type
    if entity_id == GLOBAL_RECORD_ID:
        return GLOBAL_RECORD_ID
    raise invalid_field("entity_type", "is missing")


@router.get("/entities", operation_id="entities.list", summary="List entities")
async def list_all(
    database: Database,
    cursors: Cursors,
    caller: Reader,
    *,
    entity_type: Annotated[
        str | None, Query(min_length=1, max_length=40, description="Only entities of this type.")
    ] = None,
    cursor: CursorParameter = None,
    limit: Limit = DEFAULT_LIMIT,
) -> EntityList:
    """List entities by their ids, with the global record."""
    scope = CursorScope(caller.organization_id, _LIST, {"entity_type": entity_type})
    found, total_count = await entities.find_page(
        database,
        caller.organization_id,
        entity_type=entity_type,
        after=cursors.read(scope, cursor),
        limit=limit,
    )
    return EntityList(
        entities=list(map(_view, found)),
        total_count=total_count,
        next_cursor=cursors.create_next(scope, found, limit=limit, position=lambda entity: entity.entity_id),
    )


@router.get("/entities/{entity_id}", operation_id="entities.get", summary="Get an entity")
async def get(database: Database, caller: Reader, entity_id: str) -> EntityView:
    """Return an entity; `global` is the record that applies to all."""
    return _view(await entities.get(database, EntityKey(caller.organization_id, entity_id)))


@router.delete("/entities/{entity_id}", operation_id="entities.delete", summary="Delete an entity")
async def delete(database: Database, caller: Writer, entity_id: str) -> MessageResponse:
    """Delete what is stored of an entity. Its entries and its node in the graph stay."""
    await entities.delete(database, EntityKey(caller.organization_id, entity_id))
    return MessageResponse(message="Entity deleted successfully")


def _view(entity: EntityRecord) -> EntityView:
    return EntityView.model_validate({name: getattr(entity, name) for name in EntityView.model_fields})
