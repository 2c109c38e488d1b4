"""`entities`: properties of what the knowledge of an organization is about, and one record that applies to all."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateOne

from kb_contracts.knowledge.entities import Entity
from kb_shared.errors import NotFound
from kb_shared.mongo.database import Database, Row, in_one_batch, upsert_all
from kb_shared.mongo.put_outcome import PutOutcome
from kb_shared.mongo.rows import RowMapper
from kb_shared.mongo.stored_properties import to_comparable, to_stored
from kb_shared.mongo.stored_time import now

NAME = "entities"
INDEXES = [IndexModel([("organization_id", ASCENDING), ("entity_id", ASCENDING)])]


@dataclass(frozen=True, slots=True)
class EntityKey:
    """Identifies an entity, or the global record."""

    organization_id: str
    entity_id: str


@dataclass(frozen=True, slots=True)
class EntityRecord:
    organization_id: str
    entity_id: str
    entity_type: str
    properties: Row
    """Properties as they are stored, with dates as dates."""
    created_at: datetime
    updated_at: datetime
    updated_by: str


_ROWS: Final = RowMapper(EntityRecord)


async def put_all(database: Database, organization_id: str, entities: Sequence[Entity], *, by: str) -> PutOutcome:
    """Create entities, or replace their types and properties; equal ones are not written.

    Args:
        database: where they are stored.
        organization_id: whose they are.
        entities: with different ids.
        by: id of the key that writes them.
    """
    outcome = await compare_all(database, organization_id, entities)
    at = now()
    upserts = [
        UpdateOne(
            _key(EntityKey(organization_id, entity.entity_id)),
            {
                "$set": {
                    "entity_type": entity.entity_type,
                    "properties": to_stored(entity.properties),
                    "updated_at": at,
                    "updated_by": by,
                },
                "$setOnInsert": {"entity_id": entity.entity_id, "created_at": at},
            },
            upsert=True,
        )
        for entity in entities
        if entity.entity_id in outcome.written
    ]
    if upserts:
        await upsert_all(database[NAME], upserts)
    return outcome


async def compare_all(database: Database, organization_id: str, entities: Sequence[Entity]) -> PutOutcome:
    """Return what `put_all` would do now."""
    stored = await find_all(database, organization_id, entity_ids=[entity.entity_id for entity in entities])
    return PutOutcome.compare(
        {entity.entity_id: (entity.entity_type, to_comparable(to_stored(entity.properties))) for entity in entities},
        {record.entity_id: (record.entity_type, to_comparable(record.properties)) for record in stored},
    )


async def find(database: Database, key: EntityKey) -> EntityRecord | None:
    row = await database[NAME].find_one(_key(key))
    return _ROWS.read(row) if row else None


async def get(database: Database, key: EntityKey) -> EntityRecord:
    """Return an entity. Raises NotFound."""
    if (found := await find(database, key)) is None:
        raise NotFound("entity")
    return found


async def find_all(database: Database, organization_id: str, *, entity_ids: Collection[str]) -> list[EntityRecord]:
    """Return those of the entities that exist, in no order."""
    ids = [_row_id(EntityKey(organization_id, entity_id)) for entity_id in entity_ids]
    query = {"_id": {"$in": ids}, "organization_id": organization_id}
    rows = database[NAME].find(query, batch_size=in_one_batch(len(ids)))
    return [_ROWS.read(row) async for row in rows]


async def find_page(
    database: Database, organization_id: str, *, entity_type: str | None = None, after: str | None, limit: int
) -> tuple[list[EntityRecord], int]:
    """Return a page of entities in the order of their ids, and their total number.

    Args:
        database: where they are stored.
        organization_id: whose they are.
        entity_type: only entities of this type.
        after: id of the entity before the page.
        limit: greatest number of entities of the page.
    """
    query: Row = {"organization_id": organization_id}
    if entity_type is not None:
        query["entity_type"] = entity_type
    page = query if after is None else {**query, "entity_id": {"$gt": after}}
    rows = database[NAME].find(page).sort("entity_id", ASCENDING).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)


async def count(database: Database, organization_id: str) -> int:
    return await database[NAME].count_documents({"organization_id": organization_id})


async def delete(database: Database, key: EntityKey) -> None:
    """Delete an entity. Raises NotFound."""
    if not (await database[NAME].delete_one(_key(key))).deleted_count:
        raise NotFound("entity")


def _row_id(key: EntityKey) -> str:
    return f"{key.organization_id}/{key.entity_id}"


def _key(key: EntityKey) -> Row:
    return {"_id": _row_id(key), "organization_id": key.organization_id}
