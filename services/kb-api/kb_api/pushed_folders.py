"""`pushed_folders`: the folder that documents with a common beginning of their ids were pushed from.

The row decides which of two folders with the same name may replace documents. So a second folder is noticed on every
machine that pushes, also after the machine of the first one was set up again or the database was restored.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, IndexModel, ReturnDocument
from pymongo.errors import DuplicateKeyError

from kb_shared.mongo.database import Database, Row
from kb_shared.mongo.rows import RowMapper

NAME = "pushed_folders"
INDEXES = [IndexModel([("organization_id", ASCENDING)])]


@dataclass(frozen=True, slots=True)
class PushedFolder:
    organization_id: str
    name: str
    """Beginning of the ids of its documents, before the first dot."""
    host: str
    path: str
    is_named: bool
    """True if a person has named it: it is the same one wherever it is."""
    first_pushed_at: datetime
    version: int = 1
    """Number that rises with each change of the place."""

    @property
    def place(self) -> Row:
        return {"host": self.host, "path": self.path, "is_named": self.is_named}


_ROWS: Final = RowMapper(PushedFolder)


async def find(database: Database, organization_id: str, *, name: str) -> PushedFolder | None:
    row = await database[NAME].find_one(_key(organization_id, name))
    return _ROWS.read(row) if row else None


async def count(database: Database, organization_id: str) -> int:
    return await database[NAME].count_documents({"organization_id": organization_id})


async def put(database: Database, wanted: PushedFolder, *, replaces: int | None) -> PushedFolder | None:
    """Store the place of a folder; return None if another request stored another place first.

    Args:
        replaces: version that may be replaced; None if there must be none.
    """
    key = _key(wanted.organization_id, wanted.name)
    if replaces is None:
        try:
            await database[NAME].insert_one(
                key
                | wanted.place
                | {"name": wanted.name, "first_pushed_at": wanted.first_pushed_at, "version": wanted.version}
            )
        except DuplicateKeyError:
            pass
        else:
            return wanted
    else:
        row = await database[NAME].find_one_and_update(
            {**key, "version": replaces},
            {"$set": wanted.place, "$inc": {"version": 1}},
            return_document=ReturnDocument.AFTER,
        )
        if row is not None:
            return _ROWS.read(row)
    stored = await find(database, wanted.organization_id, name=wanted.name)
    # A request whose answer was lost comes again.
    return stored if stored is not None and stored.place == wanted.place else None


def _key(organization_id: str, name: str) -> Row:
    return {"_id": f"{organization_id}/{name}", "organization_id": organization_id}
