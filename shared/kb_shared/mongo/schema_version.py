"""`deployment`: one row with the version of the stored data, and the oldest version of the code that may work with it.

Every service calls `check` before it uses the database. docs/reference/migrations.md says when these numbers change.
"""

from dataclasses import dataclass
from typing import Final

from kb_shared.errors import VersionTooOld
from kb_shared.mongo.database import Database
from kb_shared.mongo.rows import RowMapper

NAME: Final = "deployment"
ID: Final = "schema"

SCHEMA_VERSION: Final = 3
"""Version of the data that this code writes, and the newest that it knows."""
OLDEST_READER: Final = 1
"""Lowest `SCHEMA_VERSION` of code that may work with what this code writes."""
BEFORE_VERSIONS: Final = 1
"""Version of data that was written before this row existed."""

# Literals: these are the names in old data, whatever later code calls its collections.
_FIRST_USED: Final = ("api_keys", "documents", "knowledge_bases")
"""Collections of which one at least has a row in each database that was used before this row existed."""


@dataclass(frozen=True, slots=True)
class StoredSchema:
    schema_version: int
    """Version of the data: all migrations up to this one are finished."""
    oldest_reader: int
    """Lowest `SCHEMA_VERSION` of code that may work with the data."""


_ROWS: Final = RowMapper(StoredSchema)


async def check(database: Database) -> None:
    """Check that this code may work with the data, and store which code may do so from now on.

    A new database gets the version of this code. So this must come before the first write of a process: after one, a
    new database would look like one with old data.

    Raises:
        VersionTooOld: newer code has written what this code can't work with.
    """
    stored = await find(database)
    if stored is None:
        await _initialize(database)
        stored = await get(database)
    if stored.oldest_reader > SCHEMA_VERSION:
        raise VersionTooOld(
            f"the database {database.name!r} needs a version of the services with schema version "
            f"{stored.oldest_reader} or later, and this one has schema version {SCHEMA_VERSION}: start a later "
            "version, or restore a backup from before the update (docs/how-to/update.md)"
        )
    if stored.oldest_reader < OLDEST_READER:
        # Before this code writes anything that older code can't work with.
        await database[NAME].update_one({"_id": ID}, {"$max": {"oldest_reader": OLDEST_READER}})


async def find(database: Database) -> StoredSchema | None:
    """Return the stored versions; None if no code with this check has used the database yet."""
    row = await database[NAME].find_one({"_id": ID})
    return None if row is None else _ROWS.read(row)


async def get(database: Database) -> StoredSchema:
    stored = await find(database)
    assert stored is not None, "check comes first, and nothing deletes the row"
    return stored


async def _initialize(database: Database) -> None:
    # Another process writes this row before anything else: if its data is seen here, the row exists, and the version
    # that it contains stays.
    version = BEFORE_VERSIONS if await _was_used(database) else SCHEMA_VERSION
    fields = {"schema_version": version, "oldest_reader": OLDEST_READER}
    await database[NAME].update_one({"_id": ID}, {"$setOnInsert": fields}, upsert=True)


async def _was_used(database: Database) -> bool:
    for name in _FIRST_USED:
        if await database[name].find_one({}, {"_id": 1}) is not None:
            return True
    return False
