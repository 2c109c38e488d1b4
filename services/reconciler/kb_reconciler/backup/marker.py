"""`kb_restore`: one row in a database that is being restored, so that an interrupted restore can continue."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from kb_reconciler.backup.deployments import list_collections
from kb_reconciler.backup.errors import BackupRefused
from kb_reconciler.backup.manifest import BackupHeader
from kb_reconciler.backup.scope import MARKER, BackupScope
from kb_shared.mongo.database import Database

_ID: Final = "restore"
_NAMED: Final = 5
"""Number of collections that an error names."""


@dataclass(frozen=True, slots=True)
class RestoreMarker:
    """Progress of the restore into a database."""

    database: Database
    finished: frozenset[str]
    """Collections that are complete."""
    continues: bool
    """True if an earlier restore was interrupted."""

    async def note_finished(self, collection: str) -> None:
        await self.database[MARKER].update_one({"_id": _ID}, {"$addToSet": {"finished": collection}})

    async def remove(self) -> None:
        """Make the database one like any other."""
        await self.database[MARKER].drop()


async def claim(database: Database, header: BackupHeader, scope: BackupScope) -> RestoreMarker:
    """Mark an empty database as one that is being restored, or continue the restore of the same backup.

    Raises:
        BackupRefused: the database has something else.
    """
    collections = await list_collections(database)
    row = await database[MARKER].find_one({"_id": _ID})
    if row is None and collections.keys() - {MARKER}:
        raise BackupRefused(_not_empty(database, collections.keys()))
    # The deployment and the second in which it began identify a backup.
    backup = f"{header.deployment}/{header.started_at.isoformat()}/{scope.organization_id}/{scope.kb_id}"
    if row is None:
        await database[MARKER].insert_one(
            {"_id": _ID, "backup": backup, "started_at": datetime.now(UTC), "finished": []}
        )
        return RestoreMarker(database, frozenset(), continues=False)
    if row["backup"] != backup:
        raise BackupRefused(
            f"database {database.name!r} has an unfinished restore of another backup, or of another part of this one,"
            f" begun on {row['started_at']:%Y-%m-%d %H:%M} UTC: drop the database, or finish that restore"
        )
    return RestoreMarker(database, frozenset(row["finished"]), continues=True)


def _not_empty(database: Database, names: Collection[str]) -> str:
    some = ", ".join(sorted(names)[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (
        f"database {database.name!r} is not empty: it has the collections {some}{more}. Restore into a database that"
        " does not exist yet, before the services use it"
    )
