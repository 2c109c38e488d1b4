"""`mcp_servers`: MCP servers that sources read from, with their headers, which are encrypted like provider keys."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel

from kb_knowledge.store.keys import McpServerKey
from kb_shared.errors import NotFound
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.rows import RowMapper
from kb_shared.secrets.key_ring import KeyRing, Sealed

NAME = "mcp_servers"
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("_id", DESCENDING)]),
    IndexModel([("headers.key_id", ASCENDING)], sparse=True),
]


@dataclass(frozen=True, slots=True)
class McpServer:
    mcp_server_id: str
    organization_id: str
    label: str
    url: str
    header_names: tuple[str, ...]
    headers: Sealed | None
    """Names and values of the headers, encrypted; None if there are none."""
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str

    @property
    def key(self) -> McpServerKey:
        return McpServerKey(self.organization_id, self.mcp_server_id)


_SEALED: Final = RowMapper(Sealed)
_ROWS: Final = RowMapper(
    McpServer, names={"mcp_server_id": "_id"}, convert={"header_names": tuple, "headers": _SEALED.read}
)


def new_mcp_server_id() -> str:
    return str(ObjectId())


def seal_headers(key_ring: KeyRing, key: McpServerKey, headers: Mapping[str, str]) -> Sealed:
    """Encrypt headers so that only this server of this organization has them."""
    return key_ring.seal(json.dumps(dict(headers)), organization_id=key.organization_id, provider=_bound_to(key))


def open_headers(key_ring: KeyRing, server: McpServer) -> Mapping[str, str]:
    """Decrypt the headers of a server. Raises Unreadable."""
    if server.headers is None:
        return {}
    opened = key_ring.open(server.headers, organization_id=server.organization_id, provider=_bound_to(server.key))
    headers: dict[str, str] = json.loads(opened)
    return headers


async def put(database: Database, session: MongoSession | None, server: McpServer) -> None:
    """Store a server, replacing an earlier row."""
    await database[NAME].replace_one(server.key.to_query(), _to_row(server), upsert=True, session=session)


async def get(database: Database, key: McpServerKey, *, session: MongoSession | None = None) -> McpServer:
    """Return a server. Raises NotFound."""
    server = await find(database, key, session=session)
    if server is None:
        raise NotFound("MCP server")
    return server


async def find(database: Database, key: McpServerKey, *, session: MongoSession | None = None) -> McpServer | None:
    row = await database[NAME].find_one(key.to_query(), session=session)
    return None if row is None else _ROWS.read(row)


async def find_page(database: Database, organization_id: str, *, skip: int, limit: int) -> tuple[list[McpServer], int]:
    """Return a page of the servers of an organization, newest first, and their total number."""
    query = {"organization_id": organization_id}
    rows = database[NAME].find(query).sort("_id", DESCENDING).skip(skip).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)


async def count(database: Database, organization_id: str) -> int:
    return await database[NAME].count_documents({"organization_id": organization_id})


async def touch(database: Database, session: MongoSession, key: McpServerKey) -> bool:
    """Write to a server, so that no other transaction deletes it at the same time. False if it is gone."""
    touched = await database[NAME].update_one(key.to_query(), {"$inc": {"uses": 1}}, session=session)
    return touched.matched_count == 1


async def delete(database: Database, session: MongoSession, key: McpServerKey) -> bool:
    return (await database[NAME].delete_one(key.to_query(), session=session)).deleted_count == 1


async def find_sealed_with_other_key(database: Database, key_id: str) -> Sequence[McpServer]:
    """Return the servers of all organizations whose headers were sealed with a key other than `key_id`."""
    query = {"headers": {"$ne": None}, "headers.key_id": {"$ne": key_id}}
    return [_ROWS.read(row) async for row in database[NAME].find(query)]


async def reseal(database: Database, server: McpServer, sealed: Sealed) -> None:
    """Store the headers encrypted again, unless they were replaced since `server` was read."""
    if server.headers is None:
        return
    unchanged = {**server.key.to_query(), "headers.nonce": server.headers.nonce}
    await database[NAME].update_one(unchanged, {"$set": {"headers": _sealed_row(sealed)}})


def _bound_to(key: McpServerKey) -> str:
    return f"mcp/{key.mcp_server_id}"


def _sealed_row(sealed: Sealed) -> Row:
    return {"key_id": sealed.key_id, "nonce": sealed.nonce, "ciphertext": sealed.ciphertext}


def _to_row(server: McpServer) -> Row:
    return {
        "_id": server.mcp_server_id,
        "organization_id": server.organization_id,
        "label": server.label,
        "url": server.url,
        "header_names": list(server.header_names),
        "headers": server.headers and _sealed_row(server.headers),
        "created_at": server.created_at,
        "created_by": server.created_by,
        "updated_at": server.updated_at,
        "updated_by": server.updated_by,
    }
