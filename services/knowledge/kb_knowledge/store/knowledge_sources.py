"""`knowledge_sources`: where entries are fetched from: web sites, files and MCP servers, with their schedules."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel

from kb_knowledge.store.keys import McpServerKey, SourceKey
from kb_shared.errors import NotFound
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.rows import RowMapper

NAME = "knowledge_sources"
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("_id", DESCENDING)]),
    # For the schedule, of all organizations.
    IndexModel([("next_run_at", ASCENDING)], partialFilterExpression={"next_run_at": {"$exists": True}}),
]


class SourceKind(StrEnum):
    URL_CRAWL = "url_crawl"
    FILE_UPLOAD = "file_upload"
    MCP = "mcp"


@dataclass(frozen=True, slots=True)
class KnowledgeSource:
    source_id: str
    organization_id: str
    label: str
    kind: SourceKind
    config: Mapping[str, Any]
    """Fields that the kind needs, checked when they were stored."""
    cron_expression: str | None
    """Schedule in UTC; None: it runs only when it is asked for."""
    enabled: bool
    """False if it does not run by itself."""
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str
    next_run_at: datetime | None = None
    last_run_at: datetime | None = None
    last_run_status: str | None = None
    """Status of the last run that has ended: `ok`, `partial` or `error`."""
    last_run_error: str | None = None
    last_run_entry_count: int | None = None
    """Number of entries of the source after the last run."""

    @property
    def key(self) -> SourceKey:
        return SourceKey(self.organization_id, self.source_id)


_ROWS: Final = RowMapper(KnowledgeSource, names={"source_id": "_id"}, convert={"kind": SourceKind})


def new_source_id() -> str:
    return str(ObjectId())


async def insert(database: Database, session: MongoSession | None, source: KnowledgeSource) -> None:
    await database[NAME].insert_one(_to_row(source), session=session)


async def get(database: Database, key: SourceKey, *, session: MongoSession | None = None) -> KnowledgeSource:
    """Return a source. Raises NotFound."""
    source = await find(database, key, session=session)
    if source is None:
        raise NotFound("knowledge source")
    return source


async def find(database: Database, key: SourceKey, *, session: MongoSession | None = None) -> KnowledgeSource | None:
    row = await database[NAME].find_one(key.to_query(), session=session)
    return None if row is None else _ROWS.read(row)


async def find_page(
    database: Database, organization_id: str, *, skip: int, limit: int
) -> tuple[list[KnowledgeSource], int]:
    """Return a page of the sources of an organization, newest first, and their total number."""
    query = {"organization_id": organization_id}
    rows = database[NAME].find(query).sort("_id", DESCENDING).skip(skip).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)


async def count(database: Database, organization_id: str) -> int:
    return await database[NAME].count_documents({"organization_id": organization_id})


async def names_mcp_server(database: Database, session: MongoSession, key: McpServerKey) -> bool:
    """Return whether a source reads from an MCP server."""
    query = {"organization_id": key.organization_id, "config.mcp_server_id": key.mcp_server_id}
    return await database[NAME].find_one(query, {"_id": 1}, session=session) is not None


async def replace(database: Database, session: MongoSession, source: KnowledgeSource) -> None:
    await database[NAME].replace_one(source.key.to_query(), _to_row(source), session=session)


async def delete(database: Database, session: MongoSession, key: SourceKey) -> None:
    await database[NAME].delete_one(key.to_query(), session=session)


async def touch(database: Database, session: MongoSession, key: SourceKey) -> bool:
    """Write to a source, so that no other transaction deletes or changes it at the same time. False if it is gone."""
    touched = await database[NAME].update_one(key.to_query(), {"$inc": {"run_requests": 1}}, session=session)
    return touched.matched_count == 1


async def find_due(database: Database, *, now: datetime, limit: int) -> Sequence[KnowledgeSource]:
    """Return sources of all organizations whose next run should have begun by `now`, the latest first."""
    rows = database[NAME].find({"next_run_at": {"$lte": now}, "enabled": True}).sort("next_run_at").limit(limit)
    return [_ROWS.read(row) async for row in rows]


async def set_next_run(
    database: Database, session: MongoSession, source: KnowledgeSource, *, next_run_at: datetime | None
) -> bool:
    """Store when a source runs next. False if its schedule was changed since `source` was read."""
    query = {**source.key.to_query(), "next_run_at": source.next_run_at, "enabled": True}
    change = {"$set": {"next_run_at": next_run_at}} if next_run_at else {"$unset": {"next_run_at": ""}}
    return (await database[NAME].update_one(query, change, session=session)).matched_count == 1


@dataclass(frozen=True, slots=True)
class EndedRun:
    last_run_at: datetime
    last_run_status: str
    last_run_error: str | None
    last_run_entry_count: int


async def record_run(database: Database, session: MongoSession, key: SourceKey, *, ended: EndedRun) -> None:
    await database[NAME].update_one(key.to_query(), {"$set": asdict(ended)}, session=session)


def _to_row(source: KnowledgeSource) -> Row:
    row = asdict(source)
    # The index of due sources has no rows without a time.
    if row["next_run_at"] is None:
        del row["next_run_at"]
    return {"_id": row.pop("source_id"), **row}
