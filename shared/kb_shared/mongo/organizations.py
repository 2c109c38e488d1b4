"""`organizations`: settings of organizations, and a counter for transactions that must not run concurrently."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Final

from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.rows import RowMapper

NAME = "organizations"


@dataclass(frozen=True, slots=True)
class OrganizationSettings:
    """Settings that an organization changes itself."""

    strict_metadata: bool = False
    """Refusal of documents with metadata that can't be stored, which are otherwise left out with a warning."""


_SETTINGS: Final = RowMapper(OrganizationSettings)


async def find_settings(database: Database, organization_id: str) -> OrganizationSettings:
    """Return the settings of an organization, those of a new one if it has changed none."""
    return (await find_all_settings(database, [organization_id])).get(organization_id, OrganizationSettings())


async def find_all_settings(database: Database, organization_ids: Collection[str]) -> dict[str, OrganizationSettings]:
    """Return the settings of those organizations that have a row."""
    fields = list(_SETTINGS.optional.values())
    rows = database[NAME].find({"_id": {"$in": sorted(organization_ids)}}, fields)
    return {row["_id"]: _SETTINGS.read(row) async for row in rows}


async def set_settings(database: Database, organization_id: str, settings: OrganizationSettings) -> None:
    await database[NAME].update_one({"_id": organization_id}, {"$set": asdict(settings)}, upsert=True)


async def serialize_transactions(database: Database, session: MongoSession, organization_id: str) -> None:
    """Serialize the transactions of an organization that call this, so that what they count remains true."""
    await database[NAME].update_one({"_id": organization_id}, {"$inc": {"writes": 1}}, upsert=True, session=session)
