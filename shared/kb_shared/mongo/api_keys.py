"""`api_keys`: keys of organizations with their scopes. Of secrets only the HMAC is stored."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.rows import RowMapper
from kb_shared.secrets.peppers import Peppers

NAME = "api_keys"
INDEXES = [IndexModel([("organization_id", ASCENDING), ("created_at", ASCENDING)])]

# Ids of several callers are in one query, so no id may make it fail for the others.
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
    """Time at which its hash was computed; None: when the key was created."""
    kb_ids: tuple[str, ...] | None = None
    """KBs to which the key is limited; None: all of the organization."""
    scopes_in_kbs: frozenset[Scope] = frozenset()
    """Scopes of a key that is limited to KBs. It has no others: a version that does not know limits allows nothing."""

    last_used_at: datetime | None = field(default=None, compare=False)
    """Time of its last use, accurate to a minute. A search compares keys, and its own use of a key is no change."""

    @property
    def granted_scopes(self) -> frozenset[Scope]:
        return self.scopes if self.kb_ids is None else self.scopes_in_kbs


def _scopes(stored: Iterable[str]) -> frozenset[Scope]:
    return frozenset(map(Scope, stored))


_ROWS: Final = RowMapper(
    ApiKey, names={"key_id": "_id"}, convert={"scopes": _scopes, "scopes_in_kbs": _scopes, "kb_ids": tuple}
)


def create_secret_key() -> tuple[str, str]:
    """Return (key id, whole key `kb_<key id>_<secret>`). The whole key is shown once and never stored."""
    key_id = secrets.token_hex(8)
    return key_id, f"kb_{key_id}_{secrets.token_urlsafe(32)}"


async def insert(
    database: Database,
    key: ApiKey,
    *,
    whole_key: str,
    pepper: str,
    session: MongoSession | None = None,
) -> bool:
    """Store a key; False if its id exists already."""
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
    if key.kb_ids is not None:
        row |= {"kb_ids": list(key.kb_ids), "scopes_in_kbs": sorted(key.scopes_in_kbs)}
    try:
        await database[NAME].insert_one(row, session=session)
    except DuplicateKeyError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class StoredKey:
    key: ApiKey
    hmac: bytes


def parse_key_id(whole_key: str) -> str | None:
    """Return the id of a whole key; None if it is malformed."""
    matched = _WHOLE_KEY.match(whole_key)
    return matched[1] if matched else None


async def find_all(database: Database, key_ids: Collection[str]) -> dict[str, StoredKey]:
    """Read the keys that exist, of any organization, by id."""
    rows = database[NAME].find({"_id": {"$in": list(key_ids)}})
    return {row["_id"]: read_row(row) async for row in rows}


async def find_organizations(database: Database, organization_ids: Collection[str]) -> set[str]:
    """Return those of the organizations that have a key, also a revoked or expired one."""
    named = {"organization_id": {"$in": list(organization_ids)}}
    return set(await database[NAME].distinct("organization_id", named))


def build_union_stage(key: ApiKey) -> Row:
    """Build the stage of a query on another collection that adds the row of a key, if it exists, as `api_key`."""
    mine = {"_id": key.key_id, "organization_id": key.organization_id}
    return {"$unionWith": {"coll": NAME, "pipeline": [{"$match": mine}, {"$project": {"_id": 0, "api_key": "$$ROOT"}}]}}


def read_row(row: Row) -> StoredKey:
    """Convert a row."""
    return StoredKey(_ROWS.read(row), row["hmac"])


def check_key(stored: StoredKey | None, whole_key: str, *, peppers: Peppers) -> ApiKey | None:
    """Return the key if it is correct, not expired and not revoked. Takes the same time for an unknown key."""
    expected = stored.hmac if stored is not None else bytes(32)
    # With every pepper, so that the time doesn't depend on the matching one.
    matches = [hmac.compare_digest(_hmac(whole_key, pepper), expected) for pepper in peppers]
    if stored is None or not any(matches):
        return None
    key = stored.key
    if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= datetime.now(UTC)):
        return None
    return key


async def rehash(database: Database, stored: StoredKey, whole_key: str, *, peppers: Peppers) -> bool:
    """Replace the hash of a correct key if it was computed with a former pepper; return whether it was."""
    if not any(hmac.compare_digest(_hmac(whole_key, former), stored.hmac) for former in peppers.former):
        return False
    made = {"hmac": _hmac(whole_key, peppers.current), "hashed_at": datetime.now(UTC)}
    mine = {"_id": stored.key.key_id, "organization_id": stored.key.organization_id, "hmac": stored.hmac}
    written = await database[NAME].update_one(mine, {"$set": made})
    return written.matched_count == 1


async def revoke_others(database: Database, organization_id: str, *, but: str) -> None:
    """Revoke all keys of an organization but one."""
    await database[NAME].update_many(
        {"organization_id": organization_id, "_id": {"$ne": but}, "revoked_at": None},
        {"$set": {"revoked_at": datetime.now(UTC)}},
    )


async def delete_of_organization(database: Database, session: MongoSession, organization_id: str) -> None:
    await database[NAME].delete_many({"organization_id": organization_id}, session=session)


async def note_use(database: Database, key: ApiKey, *, at: datetime) -> None:
    mine = {"_id": key.key_id, "organization_id": key.organization_id}
    await database[NAME].update_one(mine, {"$max": {"last_used_at": at}})


async def authenticate(database: Database, whole_key: str, *, peppers: Peppers) -> ApiKey | None:
    """Return the key of `whole_key` if it is correct, not expired and not revoked."""
    key_id = parse_key_id(whole_key)
    found = await find_all(database, [key_id] if key_id is not None else [])
    return check_key(found.get(key_id or ""), whole_key, peppers=peppers)


async def find_page(database: Database, organization_id: str, *, skip: int, limit: int) -> tuple[Sequence[ApiKey], int]:
    query = {"organization_id": organization_id}
    rows = database[NAME].find(query).sort([("created_at", ASCENDING), ("_id", ASCENDING)]).skip(skip).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)


async def count_live(database: Database, organization_id: str) -> int:
    """Count the keys that are neither revoked nor expired."""
    live = {"revoked_at": None, "$or": [{"expires_at": None}, {"expires_at": {"$gt": datetime.now(UTC)}}]}
    return await database[NAME].count_documents({"organization_id": organization_id, **live})


async def revoke(database: Database, organization_id: str, *, key_id: str, session: MongoSession | None = None) -> bool:
    written = await database[NAME].update_one(
        {"_id": key_id, "organization_id": organization_id, "revoked_at": None},
        {"$set": {"revoked_at": datetime.now(UTC)}},
        session=session,
    )
    return written.matched_count == 1


def _hmac(whole_key: str, pepper: str) -> bytes:
    return hmac.new(pepper.encode(), whole_key.encode(), hashlib.sha256).digest()
