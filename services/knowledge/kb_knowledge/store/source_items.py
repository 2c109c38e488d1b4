"""`source_items`: what runs have read of sources, with the ids of the entries, so that the next reads what is new."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from pymongo import ASCENDING, IndexModel

from kb_knowledge.sources.source_items import KnownItem, KnownPart, Validators
from kb_knowledge.store.keys import SourceKey
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.rows import RowMapper

NAME = "source_items"
INDEXES = [IndexModel([("organization_id", ASCENDING), ("source_id", ASCENDING)])]


def _validators(stored: Row) -> Validators:
    return Validators(stored.get("etag"), stored.get("last_modified"))


def _parts(stored: Sequence[Row]) -> tuple[KnownPart, ...]:
    return tuple(map(_PARTS.read, stored))


_PARTS: Final = RowMapper(KnownPart)
_ROWS: Final = RowMapper(
    KnownItem, convert={"validators": _validators, "links": tuple, "parts": _parts, "warnings": tuple}
)


class StoredItems:
    """Items of one source."""

    def __init__(self, database: Database, source: SourceKey) -> None:
        self._rows = database[NAME]
        self._source = {"organization_id": source.organization_id, "source_id": source.source_id}

    async def find(self, key: str) -> KnownItem | None:
        row = await self._rows.find_one(self._identity(key))
        return None if row is None else _ROWS.read(row)

    async def put(self, item: KnownItem) -> None:
        fields: dict[str, Any] = {
            "key": item.key,
            "entry_id": item.entry_id,
            "digest": item.digest,
            "validators": {"etag": item.validators.etag, "last_modified": item.validators.last_modified},
            "links": list(item.links),
            "reader_version": item.reader_version,
            "parts": [asdict(part) for part in item.parts],
            "text_digest": item.text_digest,
            "warnings": list(item.warnings),
        }
        await self._rows.update_one(self._identity(item.key), {"$set": fields}, upsert=True)

    async def find_text_states(self) -> Mapping[str, str]:
        rows = self._rows.find(self._source, {"key": 1, "entry_id": 1, "digest": 1, "text_digest": 1})
        return {row["key"]: _ROWS.read(row).text_state async for row in rows}

    async def find_entry_ids(self) -> Mapping[str, Sequence[str]]:
        rows = self._rows.find(self._source, {"key": 1, "entry_id": 1, "digest": 1, "parts": 1})
        return {row["key"]: [part.entry_id for part in _ROWS.read(row).stored_parts] async for row in rows}

    async def delete(self, key: str) -> None:
        await self._rows.delete_one(self._identity(key))

    async def delete_all(self, session: MongoSession) -> None:
        await self._rows.delete_many(self._source, session=session)

    def _identity(self, key: str) -> Row:
        digest = hashlib.sha256(key.encode()).hexdigest()[:32]
        return {"_id": f"{self._source['source_id']}/{digest}", **self._source}
