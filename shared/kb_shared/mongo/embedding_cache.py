"""`embedding_cache`: vectors that were paid for.

The id is a hash of everything that determines a vector: scope, provider, model, dimensions, query or document, and
text. Vectors are BinData float32: 6 KB, compared to 20 KB for an array of doubles.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from bson.binary import Binary
from pymongo import ASCENDING, IndexModel, UpdateOne

from kb_shared.mongo.database import Database, MongoSession, Row, upsert_all

_EXTENDED_EVERY = timedelta(days=1)
"""Interval of extensions. An extension at each use would mean a write for each read."""

NAME = "embedding_cache"
INDEXES = [IndexModel([("expires_at", ASCENDING)], expireAfterSeconds=0)]


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """Everything but the text that determines a vector. Vectors of different spaces can't be compared."""

    scope: str
    """The organization, or `global` if the setting says so."""
    provider_fingerprint: str
    model: str
    dimensions: int
    """Number of dimensions; 0: the default of the model."""
    input_type: str = "document"

    def key(self, chunk_hash: str) -> str:
        parts = (
            self.scope,
            self.provider_fingerprint,
            self.model,
            str(self.dimensions),
            self.input_type,
            chunk_hash,
        )
        return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()

    def to_row(self) -> Row:
        """Return the space of the vectors of documents as rows of other collections contain it."""
        return {
            "scope": self.scope,
            "provider_fingerprint": self.provider_fingerprint,
            "model": self.model,
            "dimensions": self.dimensions,
        }


LIFETIME: Final = timedelta(days=90)
"""Lifetime of the vectors of documents, from their last use."""


async def find(
    database: Database, space: VectorSpace, chunk_hashes: Collection[str], *, keep_for: timedelta | None = None
) -> dict[str, bytes]:
    """Return the cached vectors, as stored, by chunk hash, in one query.

    Args:
        keep_for: extends their lifetime to so long from now, to within a day; None: lifetimes are unchanged.
    """
    keys = {space.key(chunk_hash): chunk_hash for chunk_hash in chunk_hashes}
    rows = await (
        database[NAME]
        .find({"_id": {"$in": list(keys)}, "scope": space.scope}, {"embedding": 1, "expires_at": 1})
        .to_list()
    )
    if keep_for is not None:
        await _keep(database, space, rows, until=datetime.now(UTC) + keep_for)
    return {keys[row["_id"]]: row["embedding"] for row in rows}


async def _keep(database: Database, space: VectorSpace, rows: Sequence[Row], *, until: datetime) -> None:
    latest = until - _EXTENDED_EVERY
    sooner = [row["_id"] for row in rows if row.get("expires_at") is None or row["expires_at"] < latest]
    if sooner:
        of_those = {"_id": {"$in": sooner}, "scope": space.scope}
        await database[NAME].update_many(of_those, {"$max": {"expires_at": until}})


@dataclass(frozen=True, slots=True)
class NewVector:
    chunk_hash: str
    embedding: Binary
    ledger_id: str
    """Id of the charge that pays for it."""


async def store(
    database: Database,
    session: MongoSession,
    space: VectorSpace,
    *,
    vectors: Sequence[NewVector],
    lifetime: timedelta,
    all_new: bool,
) -> list[NewVector]:
    """Store vectors; return those that were new.

    Args:
        all_new: whether none is expected to exist. This is a third of the work for the server, but an existing one
            aborts the transaction with a duplicate key.
    """
    rows = [
        _build_row(space, vector.chunk_hash, vector.embedding, lifetime=lifetime) | {"ledger_id": vector.ledger_id}
        for vector in vectors
    ]
    if all_new:
        await database[NAME].insert_many(rows, ordered=False, session=session)
        return list(vectors)
    written = await database[NAME].bulk_write([_upsert(row) for row in rows], ordered=False, session=session)
    return [vectors[index] for index in written.upserted_ids or ()]


def _build_row(space: VectorSpace, chunk_hash: str, embedding: Binary, *, lifetime: timedelta) -> Row:
    now = datetime.now(UTC)
    return {
        "_id": space.key(chunk_hash),
        "scope": space.scope,
        "embedding_model": space.model,
        "created_at": now,
        "expires_at": now + lifetime,
        "chunk_hash": chunk_hash,
        "embedding": embedding,
    }


def _upsert(row: Row) -> UpdateOne:
    key = {name: row.pop(name) for name in ("_id", "scope")}
    return UpdateOne(key, {"$setOnInsert": row}, upsert=True)


async def find_paid_by(
    database: Database,
    session: MongoSession,
    space: VectorSpace,
    *,
    chunk_hashes: Collection[str],
    ledger_ids: Collection[str],
) -> set[str]:
    """Return the `chunk_hashes` whose vectors one of `ledger_ids` paid for."""
    rows = database[NAME].find(
        {
            "_id": {"$in": [space.key(chunk_hash) for chunk_hash in chunk_hashes]},
            "scope": space.scope,
            "ledger_id": {"$in": list(ledger_ids)},
        },
        {"chunk_hash": 1},
        session=session,
    )
    return {row["chunk_hash"] async for row in rows}


async def find_missing(database: Database, scope: str, keys: Collection[str]) -> set[str]:
    """Return those of `keys`, made by `VectorSpace.key`, that the cache does not have in `scope`."""
    found = database[NAME].find({"_id": {"$in": list(keys)}, "scope": scope}, {"_id": 1})
    return set(keys) - {row["_id"] async for row in found}


async def restore(database: Database, space: VectorSpace, vectors: Iterable[tuple[str, Binary]]) -> None:
    """Store vectors of documents, given with their chunk hashes, that were paid for before. They cost nothing.

    Of a row that exists, the lifetime is extended, and nothing else is changed.
    """
    upserts = []
    for chunk_hash, embedding in vectors:
        row = _build_row(space, chunk_hash, embedding, lifetime=LIFETIME)
        key = {name: row.pop(name) for name in ("_id", "scope")}
        extended = {"expires_at": row.pop("expires_at")}
        upserts.append(UpdateOne(key, {"$max": extended, "$setOnInsert": row}, upsert=True))
    if upserts:
        await upsert_all(database[NAME], upserts)


async def find_vectors(database: Database, scope: str, keys: Collection[str]) -> dict[str, object]:
    """Return what the cache has as vectors, which may be unsound, by key."""
    rows = database[NAME].find({"_id": {"$in": list(keys)}, "scope": scope}, {"embedding": 1})
    return {row["_id"]: row.get("embedding") async for row in rows}


async def delete(database: Database, scope: str, key: str, *, embedding: object) -> None:
    """Delete a row, unless its vector is no longer `embedding`."""
    await database[NAME].delete_one({"_id": key, "scope": scope, "embedding": embedding})
