"""`reconcile_passes`: drift that passes of the reconciler found in the KBs of an organization, and repaired.

A full pass leaves a row for each organization with KBs, an incremental pass for each one with drift.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Final

from pymongo import ASCENDING, DESCENDING, IndexModel

from kb_shared.mongo.database import Database
from kb_shared.mongo.rows import RowMapper

NAME = "reconcile_passes"
KEPT_FOR: Final = timedelta(days=30)
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("started_at", DESCENDING)]),
    IndexModel([("started_at", ASCENDING)], expireAfterSeconds=int(KEPT_FOR.total_seconds())),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilePass:
    organization_id: str
    kind: str
    """`full` or `incremental`."""
    started_at: datetime
    finished_at: datetime
    knowledge_bases: int
    """Number of KBs that were compared."""
    found: Mapping[str, int] = field(default_factory=dict)
    """Number of documents by kind of drift."""
    repaired: Mapping[str, int] = field(default_factory=dict)
    stopped: Mapping[str, int] = field(default_factory=dict)
    """Number of documents that were not removed, because they were too many."""


_ROWS: Final = RowMapper(ReconcilePass)


async def add(database: Database, passes: Sequence[ReconcilePass]) -> None:
    if passes:
        await database[NAME].insert_many([asdict(each) for each in passes])


async def find_page(
    database: Database, organization_id: str, *, skip: int, limit: int
) -> tuple[list[ReconcilePass], int]:
    """Return a page of passes, newest first, and their total number."""
    query = {"organization_id": organization_id}
    rows = database[NAME].find(query).sort([("started_at", DESCENDING), ("_id", ASCENDING)]).skip(skip).limit(limit)
    return [_ROWS.read(row) async for row in rows], await database[NAME].count_documents(query)
