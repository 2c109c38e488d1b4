"""`provider_pauses`: providers of models that an organization has paused. A missing row means that it is not paused.

Rows are few and do not depend on `llm_providers`: a provider can also be paused that is called with the key of the
deployment.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, IndexModel, ReturnDocument

from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.rows import RowMapper

NAME = "provider_pauses"
INDEXES = [IndexModel([("organization_id", ASCENDING)])]


@dataclass(frozen=True, slots=True)
class ProviderPause:
    organization_id: str
    provider: str
    paused_at: datetime
    paused_by: str


_ROWS: Final = RowMapper(ProviderPause)


async def pause(database: Database, wanted: ProviderPause) -> ProviderPause:
    """Pause a provider; return the pause that holds, which is an earlier one if there is one."""
    row = await database[NAME].find_one_and_update(
        _key(wanted.organization_id, wanted.provider),
        {
            "$setOnInsert": {
                "provider": wanted.provider,
                "paused_at": wanted.paused_at,
                "paused_by": wanted.paused_by,
            }
        },
        upsert=True,
        return_document=ReturnDocument.AFTER,
    )
    assert row is not None, "it is inserted if it is not there"
    return _ROWS.read(row)


async def resume(database: Database, organization_id: str, provider: str) -> None:
    await database[NAME].delete_one(_key(organization_id, provider))


async def find_all(database: Database, organization_id: str) -> dict[str, ProviderPause]:
    """Return the pauses of an organization by provider."""
    rows = database[NAME].find({"organization_id": organization_id}).sort("_id", ASCENDING)
    return {row["provider"]: _ROWS.read(row) async for row in rows}


def _key(organization_id: str, provider: str) -> Row:
    return {"_id": f"{organization_id}/{provider}", "organization_id": organization_id}
