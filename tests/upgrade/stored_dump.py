"""A dump of a database in the layout of `mongodump --gzip`: `<name>.bson.gz` and `<name>.metadata.json.gz`."""

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import bson
from bson import json_util
from pymongo import IndexModel
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase

from kb_shared.mongo import leases

Collection = AsyncCollection[dict[str, Any]]
Database = AsyncDatabase[dict[str, Any]]

_ROWS: Final = ".bson.gz"
_METADATA: Final = ".metadata.json.gz"


async def write(database: Database, folder: Path) -> None:
    """Write all collections of `database`, as of one moment.

    Rows are in the order of their ids, and no time is in the files' headers: equal data gives equal files.
    """
    folder.mkdir(parents=True)  # noqa: ASYNC240  # it takes no time
    async with database.client.start_session(snapshot=True) as session:
        for name in sorted(await database.list_collection_names(filter={"type": "collection"})):
            if not name.startswith("system."):
                await _write_collection(database[name], session, folder)


async def _write_collection(collection: Collection, session: AsyncClientSession, folder: Path) -> None:
    name = collection.name
    rows = [bson.encode(row) async for row in collection.find(session=session).sort("_id")]
    indexes = [dict(index) async for index in await collection.list_indexes()]
    metadata = {"indexes": indexes, "collectionName": name, "type": "collection", "options": {}}
    _write(folder / f"{name}{_ROWS}", b"".join(rows))
    _write(folder / f"{name}{_METADATA}", json_util.dumps(metadata).encode())


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content, mtime=0))


async def load(folder: Path, database: Database, *, written_at: datetime) -> None:
    """Create the collections of a dump with their rows and indexes. Search indexes are in no dump.

    Rows expire as if the dump was written now. Leases are left out: they belonged to processes, which would be waited
    for if the dump was written a moment ago.

    Args:
        folder: of the database.
        database: does not exist yet.
        written_at: time of the dump.
    """
    age = datetime.now(UTC) - written_at
    for path in sorted(folder.glob(f"*{_METADATA}")):  # noqa: ASYNC240  # a few small files
        name = path.name.removesuffix(_METADATA)
        if name == leases.NAME:
            continue
        metadata = json_util.loads(gzip.decompress(path.read_bytes()))
        collection = await database.create_collection(name)
        rows = bson.decode_all(gzip.decompress((folder / f"{name}{_ROWS}").read_bytes()))
        for index in metadata["indexes"]:
            if "expireAfterSeconds" in index:
                _bring_forward(rows, next(iter(index["key"])), age)
        if rows:
            await collection.insert_many(rows)
        indexes = [_index(index) for index in metadata["indexes"] if index["name"] != "_id_"]
        if indexes:
            await collection.create_indexes(indexes)


def _bring_forward(rows: list[dict[str, Any]], field: str, age: timedelta) -> None:
    for row in rows:
        if isinstance(row.get(field), datetime):
            row[field] += age


def _index(described: dict[str, Any]) -> IndexModel:
    options = {name: value for name, value in described.items() if name not in ("key", "v", "ns")}
    return IndexModel(list(described["key"].items()), **options)
