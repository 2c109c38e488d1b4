"""`tags`: the tags of organizations. A tag is registered when it is seen on a document; deleted ones are marked."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateOne

from kb_shared.mongo.database import Database, MongoSession, Row, upsert_all
from kb_shared.mongo.keys import TagKey
from kb_shared.mongo.rows import RowMapper

NAME = "tags"
INDEXES = [IndexModel([("organization_id", ASCENDING), ("tag_id", ASCENDING)])]


@dataclass(frozen=True, slots=True)
class Tag:
    tag_id: str
    name: str | None
    """Name of the tag; None if it is known from documents only."""


_ROWS: Final = RowMapper(Tag, defaults={"name": None})


def row_id(key: TagKey) -> str:
    return f"{key.organization_id}/{key.tag_id}"


def _key(key: TagKey) -> dict[str, str]:
    return {"_id": row_id(key), "organization_id": key.organization_id}


async def register(database: Database, organization_id: str, *, tag_ids: Collection[str]) -> None:
    """Register tags that were seen on a document; known tags, also deleted ones, are not changed."""
    if not tag_ids:
        return
    first_seen = {"name": None, "deleted": False, "revision": None}
    await upsert_all(
        database[NAME],
        [
            UpdateOne(
                _key(TagKey(organization_id, tag_id)), {"$setOnInsert": {"tag_id": tag_id, **first_seen}}, upsert=True
            )
            for tag_id in tag_ids
        ],
    )


async def set_state(database: Database, key: TagKey, *, revision: int, deleted: bool, name: str | None) -> None:
    """Apply `tag.upserted` or `tag.deleted`: the greatest revision wins; with equal ones, the deletion."""
    newer = {
        "$or": [
            {"$eq": [{"$ifNull": ["$revision", None]}, None]},
            {"$lt": ["$revision", revision]},
            {"$and": [{"$eq": ["$revision", revision]}, {"$literal": deleted}]},
        ]
    }
    values: dict[str, object] = {"deleted": deleted, "name": name, "revision": revision}
    stages: list[Row] = [
        {"$set": {"tag_id": {"$literal": key.tag_id}, "_newer": newer}},
        {"$set": {field: {"$cond": ["$_newer", {"$literal": value}, f"${field}"]} for field, value in values.items()}},
        {"$unset": "_newer"},
    ]
    await upsert_all(database[NAME], [UpdateOne(_key(key), stages, upsert=True)])


async def find_unknown(database: Database, organization_id: str, *, tag_ids: Collection[str]) -> set[str]:
    """Return the `tag_ids` that no event, request or document of the organization has named, or that were deleted."""
    rows = database[NAME].find(
        {
            "_id": {"$in": [row_id(TagKey(organization_id, tag_id)) for tag_id in tag_ids]},
            "organization_id": organization_id,
            "deleted": False,
        },
        {"tag_id": 1},
    )
    return set(tag_ids) - {row["tag_id"] async for row in rows}


async def find_unregistered(database: Database, organization_id: str, *, tag_ids: Collection[str]) -> set[str]:
    """Return the `tag_ids` without a row: no event, request or document of the organization has ever named them."""
    rows = database[NAME].find(
        {
            "_id": {"$in": [row_id(TagKey(organization_id, tag_id)) for tag_id in tag_ids]},
            "organization_id": organization_id,
        },
        {"tag_id": 1},
    )
    return set(tag_ids) - {row["tag_id"] async for row in rows}


async def find_deleted(database: Database, organization_id: str, *, tag_ids: Collection[str]) -> set[str]:
    """Return the `tag_ids` that were deleted."""
    if not tag_ids:
        return set()
    rows = database[NAME].find(
        {
            "_id": {"$in": [row_id(TagKey(organization_id, tag_id)) for tag_id in tag_ids]},
            "organization_id": organization_id,
            "deleted": True,
        },
        {"tag_id": 1},
    )
    return {row["tag_id"] async for row in rows}


async def find_by_ids(
    database: Database, organization_id: str, *, tag_ids: Collection[str], session: MongoSession | None = None
) -> list[Tag]:
    """Return the tags of `tag_ids` that have a row, also deleted ones, in the order of their ids."""
    ids = [row_id(TagKey(organization_id, tag_id)) for tag_id in tag_ids]
    rows = database[NAME].find({"_id": {"$in": ids}, "organization_id": organization_id}, session=session)
    return [_ROWS.read(row) async for row in rows.sort("_id", ASCENDING)]


async def count(database: Database, organization_id: str) -> int:
    """Count the tags that are not deleted."""
    return await database[NAME].count_documents({"organization_id": organization_id, "deleted": False})


async def put(database: Database, organization_id: str, tag: Tag) -> None:
    """Name a tag, and restore it if it was deleted, with the revision after the last known one."""
    stages = [
        {
            "$set": {
                "tag_id": {"$literal": tag.tag_id},
                "name": {"$literal": tag.name},
                "deleted": False,
                "revision": {"$add": [{"$ifNull": ["$revision", 0]}, 1]},
            }
        }
    ]
    await upsert_all(database[NAME], [UpdateOne(_key(TagKey(organization_id, tag.tag_id)), stages, upsert=True)])


async def find(database: Database, key: TagKey) -> Tag | None:
    """Return a tag; None if it is not known or was deleted."""
    row = await database[NAME].find_one({**_key(key), "deleted": False})
    return _ROWS.read(row) if row else None


async def mark_deleted(database: Database, session: MongoSession, key: TagKey) -> None:
    """Mark a tag as deleted, with the revision after the last known one."""
    stages = [{"$set": {"deleted": True, "revision": {"$add": [{"$ifNull": ["$revision", 0]}, 1]}}}]
    await database[NAME].update_one({**_key(key), "deleted": False}, stages, session=session)


async def find_page(
    database: Database, organization_id: str, *, name_search: str | None = None, skip: int, limit: int
) -> tuple[list[Tag], int]:
    """Return a page of tags in the order of their ids, and their total number.

    Args:
        name_search: literal part of the name or of the id, case-insensitive.
    """
    query: Row = {"organization_id": organization_id, "deleted": False}
    if name_search is not None:
        part = {"$regex": re.escape(name_search), "$options": "i"}
        query["$or"] = [{"name": part}, {"tag_id": part}]
    rows = database[NAME].find(query).sort("tag_id", ASCENDING).skip(skip).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)
