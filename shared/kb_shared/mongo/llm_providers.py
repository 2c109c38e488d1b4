"""`llm_providers`: the encrypted provider keys of organizations, with addresses and limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, IndexModel

from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.rows import RowMapper
from kb_shared.secrets.key_ring import Sealed

NAME = "llm_providers"
INDEXES = [
    IndexModel([("organization_id", ASCENDING)]),
    IndexModel([("key_id", ASCENDING)]),
]


@dataclass(frozen=True, slots=True)
class LlmProvider:
    organization_id: str
    provider: str
    sealed: Sealed
    api_key_last4: str | None
    """Last four characters; None for a key that is too short to show them."""
    api_base: str | None
    """Base URL; None: the default of the provider."""
    requests_per_minute: int | None
    tokens_per_minute: int | None
    updated_at: datetime
    updated_by: str


async def put(database: Database, provider: LlmProvider) -> None:
    """Store a provider, replacing an earlier row."""
    key = _key(provider.organization_id, provider.provider)
    row = _to_row(provider)
    await database[NAME].replace_one(key, key | row, upsert=True)


async def find(database: Database, organization_id: str, provider: str) -> LlmProvider | None:
    row = await database[NAME].find_one(_key(organization_id, provider))
    return _from_row(row) if row else None


async def find_names(database: Database, organization_id: str) -> set[str]:
    """Return the names of the providers for which the organization has keys."""
    rows = database[NAME].find({"organization_id": organization_id}, {"provider": 1})
    return {row["provider"] async for row in rows}


async def find_with_address(database: Database, organization_id: str) -> set[str]:
    """Return the names of the providers for which the organization has named an address."""
    rows = database[NAME].find({"organization_id": organization_id, "api_base": {"$ne": None}}, {"provider": 1})
    return {row["provider"] async for row in rows}


async def find_page(
    database: Database, organization_id: str, *, skip: int, limit: int
) -> tuple[list[LlmProvider], int]:
    """Return a page of the providers of an organization, by name, and their total number."""
    query = {"organization_id": organization_id}
    rows = database[NAME].find(query).sort("_id", ASCENDING).skip(skip).limit(limit)
    return [_from_row(row) async for row in rows], await database[NAME].count_documents(query)


async def delete(database: Database, organization_id: str, provider: str) -> bool:
    deleted = await database[NAME].delete_one(_key(organization_id, provider))
    return deleted.deleted_count == 1


async def find_sealed_with_other_key(database: Database, key_id: str) -> Sequence[LlmProvider]:
    """Return the providers of all organizations whose key was sealed with a key other than `key_id`."""
    return [_from_row(row) async for row in database[NAME].find({"key_id": {"$ne": key_id}})]


async def reseal(database: Database, provider: LlmProvider, sealed: Sealed) -> None:
    """Store the key sealed again, unless it was replaced since `provider` was read."""
    await database[NAME].update_one(
        {**_key(provider.organization_id, provider.provider), "nonce": provider.sealed.nonce},
        {"$set": _sealed_row(sealed)},
    )


def _key(organization_id: str, provider: str) -> Row:
    return {"_id": f"{organization_id}/{provider}", "organization_id": organization_id}


def _sealed_row(sealed: Sealed) -> Row:
    return {"key_id": sealed.key_id, "nonce": sealed.nonce, "ciphertext": sealed.ciphertext}


_PLAIN = (
    "provider",
    "api_key_last4",
    "api_base",
    "requests_per_minute",
    "tokens_per_minute",
    "updated_at",
    "updated_by",
)


def _to_row(provider: LlmProvider) -> Row:
    return {name: getattr(provider, name) for name in _PLAIN} | _sealed_row(provider.sealed)


_SEALED: Final = RowMapper(Sealed)
_ROWS: Final = RowMapper(LlmProvider)


def _from_row(row: Row) -> LlmProvider:
    return _ROWS.read(row | {"sealed": _SEALED.read(row)})
