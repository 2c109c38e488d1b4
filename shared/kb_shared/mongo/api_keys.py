"""`api_keys`: who may call, for which organization, with which scopes. Secrets are kept as HMAC only."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.rows import RowMapper
from kb_shared.secrets.peppers import Peppers

NAME = "api_keys"
INDEXES = [IndexModel([("organization_id", ASCENDING), ("created_at", ASCENDING)])]

# Ids of different callers go into one query: none may spoil it for the others.
_WHOLE_KEY: Final = re.compile(r"kb_([0-9A-Za-z]{1,64})_")


class Scope(StrEnum):
    READ = "read"
    SEARCH = "search"
    WRITE = "write"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class ApiKey:
    key_id: str
    organization_id: str
    name: str
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    hashed_at: datetime | None = None
    """When its hash was made; None: when the key was."""


def _scopes(stored: Iterable[str]) -> frozenset[Scope]:
    return frozenset(map(Scope, stored))


_ROWS: Final = RowMapper(ApiKey, names={"key_id": "_id"}, convert={"scopes": _scopes})


def new_secret_key() -> tuple[str, str]:
    """(key id, whole key `kb_<key id>_<secret>`); the whole key is shown once and never stored."""
    key_id = secrets.token_hex(8)
    return key_id, f"kb_{key_id}_{secrets.token_urlsafe(32)}"


async def insert(
    database: Database,
    key: ApiKey,
    *,
    whole_key: str,
    pepper: str,
) -> bool:
    """Keep a key; False if its id is there already."""
    row = {
        "_id": key.key_id,
        "organization_id": key.organization_id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "hmac": _hmac(whole_key, pepper),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": None,
    }
    try:
        await database[NAME].insert_one(row)
    except DuplicateKeyError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class StoredKey:
    key: ApiKey
    hmac: bytes


def key_id_of(whole_key: str) -> str | None:
    """Return the id of a whole key; None if it has not the form of a key."""
    matched = _WHOLE_KEY.match(whole_key)
    return matched[1] if matched else None


async def find_all(database: Database, key_ids: Collection[str]) -> dict[str, StoredKey]:
    """Read the keys that exist, of any organization, by id."""
    rows = database[NAME].find({"_id": {"$in": list(key_ids)}})
    return {row["_id"]: stored_key(row) async for row in rows}


def united_with(key: ApiKey) -> Row:
    """The stage of a query on another collection that adds the row of a key as `api_key`, if it is there."""
    mine = {"_id": key.key_id, "organization_id": key.organization_id}
    return {"$unionWith": {"coll": NAME, "pipeline": [{"$match": mine}, {"$project": {"_id": 0, "api_key": "$$ROOT"}}]}}


def stored_key(row: Row) -> StoredKey:
    """Convert a row."""
    return StoredKey(_ROWS.read(row), row["hmac"])


def authenticated(stored: StoredKey | None, whole_key: str, *, peppers: Peppers) -> ApiKey | None:
    """The key, if it is right, unexpired and not revoked. Compared in constant time, also when there is none."""
    expected = stored.hmac if stored is not None else bytes(32)
    # With all of them, whichever is right.
    matches = [hmac.compare_digest(_hmac(whole_key, pepper), expected) for pepper in peppers]
    if stored is None or not any(matches):
        return None
    key = stored.key
    if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= datetime.now(UTC)):
        return None
    return key


async def rehash(database: Database, stored: StoredKey, whole_key: str, *, peppers: Peppers) -> bool:
    """Replace the hash of a key that is right, if a former pepper made it; return whether it did."""
    if not any(hmac.compare_digest(_hmac(whole_key, former), stored.hmac) for former in peppers.former):
        return False
    made = {"hmac": _hmac(whole_key, peppers.current), "hashed_at": datetime.now(UTC)}
    mine = {"_id": stored.key.key_id, "organization_id": stored.key.organization_id, "hmac": stored.hmac}
    written = await database[NAME].update_one(mine, {"$set": made})
    return written.matched_count == 1


async def authenticate(database: Database, whole_key: str, *, peppers: Peppers) -> ApiKey | None:
    """The key of `whole_key`, if it is right, unexpired and not revoked."""
    key_id = key_id_of(whole_key)
    found = await find_all(database, [key_id] if key_id is not None else [])
    return authenticated(found.get(key_id or ""), whole_key, peppers=peppers)


async def of_organization(
    database: Database, organization_id: str, *, skip: int, limit: int
) -> tuple[Sequence[ApiKey], int]:
    query = {"organization_id": organization_id}
    rows = database[NAME].find(query).sort([("created_at", ASCENDING), ("_id", ASCENDING)]).skip(skip).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)


async def count_live(database: Database, organization_id: str) -> int:
    """Count the keys that are neither revoked nor expired."""
    live = {"revoked_at": None, "$or": [{"expires_at": None}, {"expires_at": {"$gt": datetime.now(UTC)}}]}
    return await database[NAME].count_documents({"organization_id": organization_id, **live})


async def revoke(database: Database, organization_id: str, key_id: str) -> bool:
    written = await database[NAME].update_one(
        {"_id": key_id, "organization_id": organization_id, "revoked_at": None},
        {"$set": {"revoked_at": datetime.now(UTC)}},
    )
    return written.matched_count == 1


def _hmac(whole_key: str, pepper: str) -> bytes:
    return hmac.new(pepper.encode(), whole_key.encode(), hashlib.sha256).digest()
