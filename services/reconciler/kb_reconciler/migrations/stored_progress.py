"""Progress of migrations, in the row of `deployment`: `migrations.{version}` of each that was begun.

A reconciler writes only while it is the last one that began or resumed the migration.
"""

from datetime import UTC, datetime
from typing import Any

from pymongo import ReturnDocument

from kb_reconciler.migrations.migration import Migration
from kb_reconciler.state import LeadershipLost
from kb_shared.mongo.database import Database
from kb_shared.mongo.schema_version import ID, NAME


async def begin(database: Database, migration: Migration, *, owner: str) -> str | None:
    """Begin or resume a migration; return the marker of the last batch that is known to be complete."""
    fields = f"migrations.{migration.version}"
    row = await database[NAME].find_one_and_update(
        {"_id": ID},
        [
            {
                "$set": {
                    f"{fields}.name": migration.name,
                    f"{fields}.owner": {"$literal": owner},
                    f"{fields}.started_at": {"$ifNull": [f"${fields}.started_at", "$$NOW"]},
                }
            }
        ],
        return_document=ReturnDocument.AFTER,
    )
    assert row is not None, "the services check the version of the data first"
    marker: str | None = row["migrations"][str(migration.version)].get("marker")
    return marker


async def save_marker(database: Database, migration: Migration, marker: str, *, owner: str) -> None:
    """Store that all batches up to `marker` are complete.

    Raises:
        LeadershipLost: another reconciler has resumed the migration; nothing was stored.
    """
    await _update(database, migration, {"$set": {f"migrations.{migration.version}.marker": marker}}, owner=owner)


async def finish(database: Database, migration: Migration, *, owner: str) -> None:
    """Store that the migration is finished, and the schema version of the data.

    Raises:
        LeadershipLost: another reconciler has resumed the migration; nothing was stored.
    """
    finished = {f"migrations.{migration.version}.finished_at": datetime.now(UTC)}
    await _update(database, migration, {"$set": finished, "$max": {"schema_version": migration.version}}, owner=owner)


async def _update(database: Database, migration: Migration, update: dict[str, Any], *, owner: str) -> None:
    query = {"_id": ID, f"migrations.{migration.version}.owner": owner}
    if not (await database[NAME].update_one(query, update)).matched_count:
        raise LeadershipLost
