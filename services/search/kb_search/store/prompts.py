"""`prompts`: stored questions to chat models, with the KBs to search and a schema of the answer."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument

from kb_search.store.keys import PromptKey
from kb_shared.errors import NotFound
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.rows import RowMapper, match_version

NAME = "prompts"
INDEXES = [IndexModel([("organization_id", ASCENDING), ("_id", DESCENDING)])]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A stored question to a chat model."""

    prompt_id: str
    organization_id: str
    name: str
    content: str
    model: str
    kb_ids: tuple[str, ...]
    schema: str | None
    """JSON schema of the answer, as JSON text, because MongoDB does not take every field name."""
    created_at: datetime
    updated_at: datetime
    created_by: str
    updated_by: str
    kb_id: str | None = None
    """The only one of `kb_ids`, if the author named a single KB instead of a list."""
    version: int = 0
    """Number of changes."""
    auto_search: bool = False
    """True if its runs search with their question before the model speaks."""
    injection: str | None = None
    """Template and knowledge for its runs, as JSON text, because MongoDB does not take every field name; None: none."""


_ROWS: Final = RowMapper(Prompt, names={"prompt_id": "_id"}, convert={"kb_ids": tuple})


async def insert(database: Database, prompt: Prompt, *, session: MongoSession | None = None) -> None:
    await database[NAME].insert_one(_to_row(prompt), session=session)


async def get(database: Database, key: PromptKey, *, session: MongoSession | None = None) -> Prompt:
    """Return a prompt. Raises NotFound."""
    row = await database[NAME].find_one(_key(key), session=session)
    return _found(row)


async def page(database: Database, organization_id: str, *, skip: int, limit: int) -> tuple[list[Prompt], int]:
    """Return one page of prompts, newest first, and how many there are in all."""
    query = {"organization_id": organization_id}
    rows = database[NAME].find(query).sort("_id", DESCENDING).skip(skip).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)


async def count(database: Database, organization_id: str) -> int:
    return await database[NAME].count_documents({"organization_id": organization_id})


async def change(
    database: Database,
    session: MongoSession,
    key: PromptKey,
    *,
    fields: Mapping[str, Any],
    by: str,
    versions: Collection[int] | None = None,
) -> Prompt | None:
    """Write `fields`, and return the prompt; None if it was deleted, or has none of `versions`."""
    row = await database[NAME].find_one_and_update(
        {**_key(key), **match_version(versions)},
        {"$set": {**fields, "updated_at": datetime.now(UTC), "updated_by": by}, "$inc": {"version": 1}},
        return_document=ReturnDocument.AFTER,
        session=session,
    )
    return _ROWS.read(row) if row else None


async def delete(database: Database, session: MongoSession, key: PromptKey) -> None:
    """Delete a prompt. Raises NotFound."""
    deleted = await database[NAME].delete_one(_key(key), session=session)
    if not deleted.deleted_count:
        raise NotFound("prompt")


def _key(key: PromptKey) -> Row:
    return {"_id": key.prompt_id, "organization_id": key.organization_id}


_UNCHANGED_FIELDS = (
    "organization_id",
    "name",
    "content",
    "model",
    "schema",
    "created_at",
    "updated_at",
    "created_by",
    "updated_by",
    "version",
    "auto_search",
    "injection",
)


def _to_row(prompt: Prompt) -> Row:
    row: Row = {name: getattr(prompt, name) for name in _UNCHANGED_FIELDS}
    return row | {"_id": prompt.prompt_id, "kb_id": prompt.kb_id, "kb_ids": list(prompt.kb_ids)}


def _found(row: Row | None) -> Prompt:
    if row is None:
        raise NotFound("prompt")
    return _ROWS.read(row)
