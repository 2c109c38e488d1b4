"""`organization_deletions`: deletions of organizations with their progress, and what each organization was charged.

A row stays for ever: it is all that is left of an organization.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from pymongo import ASCENDING, IndexModel

from kb_shared.mongo import spu_ledger
from kb_shared.mongo.database import Database, MongoSession, Row, in_transaction
from kb_shared.mongo.rows import RowMapper

NAME = "organization_deletions"
INDEXES = [IndexModel([("again_at", ASCENDING)], sparse=True)]
CHARGES_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class OrganizationRows:
    """Rows of a collection that belong to an organization."""

    collection: str
    field: str = "organization_id"
    """Field with the id of the organization, or with a text that begins with it and a slash."""
    is_prefix: bool = False

    def match(self, organization_id: str) -> Row:
        if self.is_prefix:
            # "0" follows "/".
            return {self.field: {"$gte": f"{organization_id}/", "$lt": f"{organization_id}0"}}
        return {self.field: organization_id}


ROWS_OF_ORGANIZATIONS: Final = (
    *(
        OrganizationRows(name)
        for name in (
            "agents",
            "audit_log",
            "backfills",
            "budgets",
            "check_ins",
            "circuits",
            "citations",
            "crawl_frontier",
            "dead_letter_bodies",
            "dead_letters",
            "document_index",
            "document_revisions",
            "document_texts",
            "documents",
            "entities",
            "graph_edges",
            "graph_nodes",
            "idempotency_keys",
            "index_jobs",
            "knowledge_entries",
            "knowledge_entry_tombstones",
            "knowledge_sources",
            "llm_providers",
            "mcp_servers",
            "outbox",
            "prompts",
            "provider_pauses",
            "pushed_folders",
            "query_log",
            "rate_limits",
            "reconcile_passes",
            "reconcile_plans",
            "reconcile_repairs",
            "runs",
            "source_items",
            "source_runs",
            "tags",
            "threads",
            "webhook_deliveries",
            "webhooks",
        )
    ),
    OrganizationRows("embedding_cache", field="scope"),
    OrganizationRows("event_positions", field="_id"),
    OrganizationRows("events", field="_id", is_prefix=True),
    OrganizationRows("organizations", field="_id"),
    OrganizationRows("source_files.chunks", field="files_id", is_prefix=True),
    OrganizationRows("source_files.files", field="_id", is_prefix=True),
    OrganizationRows("outbox", field="key"),
    OrganizationRows("outbox", field="key", is_prefix=True),
)
"""Rows that a deletion removes. A service with a collection of its own adds it here.

Beside these it removes KBs with their chunks and slots, files of texts, charges and API keys, each in its own way.
"""


WORK: Final[Sequence[Row]] = (
    {"operationType": "insert"},
    {"updateDescription.updatedFields.again_at": {"$exists": True}},
)
"""Changes after which a deletion may have something to do."""


class DeletionState(StrEnum):
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class OrganizationDeletion:
    """The deletion of an organization."""

    organization_id: str
    state: DeletionState
    requested_by: str
    """API key that requested it, which is deleted last."""
    requested_at: datetime
    step: str
    deleted: Mapping[str, int] = field(default_factory=dict)
    """Number of deleted rows by collection."""
    charged: Mapping[str, Any] = field(default_factory=dict)
    """SPUs and billionths of a US dollar by month, such as `{"2026-01": {"spus": 3, "nano_usd": 0}}`."""
    finished_at: datetime | None = None


_ROWS: Final = RowMapper(OrganizationDeletion, convert={"state": DeletionState})


async def request(database: Database, session: MongoSession, organization_id: str, *, by: str) -> OrganizationDeletion:
    """Store a deletion that begins now; a running one is returned as it is."""
    now = datetime.now(UTC)
    new = {"state": DeletionState.RUNNING, "requested_by": by, "requested_at": now, "step": "requested"}
    key = {"_id": organization_id, "organization_id": organization_id}
    await database[NAME].update_one(
        {**key, "state": {"$ne": DeletionState.RUNNING}},
        {"$set": {**new, "again_at": now, "finished_at": None}},
        upsert=await database[NAME].find_one(key, session=session) is None,
        session=session,
    )
    row = await database[NAME].find_one(key, session=session)
    assert row is not None
    return _ROWS.read(row)


async def find(database: Database, organization_id: str) -> OrganizationDeletion | None:
    row = await database[NAME].find_one({"_id": organization_id, "organization_id": organization_id})
    return _ROWS.read(row) if row else None


async def find_due(database: Database) -> list[OrganizationDeletion]:
    """Return the deletions, of all organizations, that have something to do now."""
    rows = database[NAME].find({"again_at": {"$lte": datetime.now(UTC)}})
    return [_ROWS.read(row) async for row in rows]


async def note(
    database: Database, organization_id: str, *, step: str, deleted: Mapping[str, int] | None = None
) -> None:
    """Store how far a deletion is."""
    counts = {f"deleted.{name}": count for name, count in (deleted or {}).items() if count}
    await database[NAME].update_one(
        {"_id": organization_id, "organization_id": organization_id},
        {"$set": {"step": step}} | ({"$inc": counts} if counts else {}),
    )


async def finish(database: Database, session: MongoSession, organization_id: str, *, again_at: datetime) -> None:
    await database[NAME].update_one(
        {"_id": organization_id, "organization_id": organization_id},
        {
            "$set": {
                "state": DeletionState.DONE,
                "step": "done",
                "finished_at": datetime.now(UTC),
                "again_at": again_at,
            }
        },
        session=session,
    )


async def schedule(database: Database, organization_id: str, *, after: timedelta | None) -> None:
    """Plan another sweep of an organization that is deleted; None: no more."""
    at = None if after is None else datetime.now(UTC) + after
    await database[NAME].update_one(
        {"_id": organization_id, "organization_id": organization_id, "state": DeletionState.DONE},
        {"$set": {"again_at": at}},
    )


async def move_charges(database: Database, organization_id: str) -> int:
    """Replace charges by their sums by month, each charge once; return their number."""
    moved = 0
    while count := await in_transaction(database, lambda session: _move_some(database, session, organization_id)):
        moved += count
    return moved


async def _move_some(database: Database, session: MongoSession, organization_id: str) -> int:
    mine = {"organization_id": organization_id}
    rows = await database[spu_ledger.NAME].find(mine, session=session).limit(CHARGES_AT_ONCE).to_list()
    if not rows:
        return 0
    sums: dict[str, int] = {}
    for row in rows:
        month = f"charged.{row['created_at']:%Y-%m}"
        sums[f"{month}.spus"] = sums.get(f"{month}.spus", 0) + row["count"]
        sums[f"{month}.nano_usd"] = sums.get(f"{month}.nano_usd", 0) + row.get("nano_usd", 0)
    await database[NAME].update_one({"_id": organization_id, **mine}, {"$inc": sums}, session=session)
    await database[spu_ledger.NAME].delete_many({**mine, "_id": {"$in": [row["_id"] for row in rows]}}, session=session)
    return len(rows)
