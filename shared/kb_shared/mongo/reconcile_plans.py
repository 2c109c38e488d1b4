"""`reconcile_plans` and `reconcile_repairs`: what the reconciler was asked for, and the repairs that it plans.

kb-api stores a plan, the reconciler executes it:

    requested -> running -> done       repairs were made
                         -> planned    a dry run: repairs are listed, and made when the plan is applied
                         -> stopped    too many removals: they are listed, and made only when the plan is applied
    planned, stopped -> approved -> running -> done

A pass that stops before too many removals also stores a plan, in the state `stopped`.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument, UpdateOne

from kb_shared.mongo.database import Database, MongoSession, Row, upsert_all
from kb_shared.mongo.majority import seen_by_later_reads
from kb_shared.mongo.rows import RowMapper
from kb_shared.mongo.stored_time import now

NAME = "reconcile_plans"
REPAIRS = "reconcile_repairs"
KEPT_FOR: Final = timedelta(days=30)
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("created_at", DESCENDING)]),
    IndexModel([("state", ASCENDING)]),
    IndexModel([("created_at", ASCENDING)], expireAfterSeconds=int(KEPT_FOR.total_seconds())),
]
REPAIR_INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("plan_id", ASCENDING), ("_id", ASCENDING)]),
    IndexModel([("created_at", ASCENDING)], expireAfterSeconds=int(KEPT_FOR.total_seconds())),
]
_UNCLAIMED: Final = ("requested", "approved")
WORK: Final[Sequence[Row]] = (
    {"operationType": "insert"},
    {"operationType": "update", "updateDescription.updatedFields.state": "approved"},
)
"""Changes that may be work for a reconciler, for `WorkWatch`."""


class PlanState(StrEnum):
    REQUESTED = "requested"
    RUNNING = "running"
    PLANNED = "planned"
    STOPPED = "stopped"
    APPROVED = "approved"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PlanScope:
    """Part of an organization's data that a plan is about."""

    organization_id: str
    kb_id: str | None = None
    """Id of the KB; None: all KBs of the organization."""
    document_id: str | None = None
    """Id of the document; None: all documents."""


@dataclass(frozen=True, slots=True)
class ReconcilePlan:
    plan_id: str
    organization_id: str
    kb_id: str | None
    document_id: str | None
    dry_run: bool
    state: PlanState
    requested_by: str | None
    """Id of the API key; None if a pass has stopped."""
    created_at: datetime
    finished_at: datetime | None = None
    approved_by: str | None = None
    """Id of the API key that applied the plan."""
    found: Mapping[str, int] = field(default_factory=dict)
    """Number of documents by kind of drift."""
    repaired: Mapping[str, int] = field(default_factory=dict)
    slices: int = 0
    """Expected number of slices; 0 before the reconciler begins."""
    compared: int = 0
    """Number of slices that were compared so far."""
    skipped: tuple[str, ...] = ()
    """KBs that were not compared, because they are not active."""
    error: str | None = None

    @property
    def lists_only(self) -> bool:
        """Return whether repairs are listed and not made yet."""
        return self.dry_run and self.approved_by is None

    @property
    def scope(self) -> PlanScope:
        return PlanScope(self.organization_id, self.kb_id, self.document_id)


@dataclass(frozen=True, slots=True)
class PlannedRepair:
    """One repair of a plan."""

    kb_id: str
    kind: str
    document_id: str | None = None
    """Id of the document; None if the KB as a whole has drift."""


_PLANS: Final = RowMapper(ReconcilePlan, names={"plan_id": "_id"}, convert={"state": PlanState, "skipped": tuple})
_PLANNED: Final = RowMapper(PlannedRepair)


async def create(
    database: Database,
    scope: PlanScope,
    *,
    dry_run: bool,
    requested_by: str,
    session: MongoSession | None = None,
) -> ReconcilePlan:
    row = _new_row(scope, dry_run=dry_run, requested_by=requested_by, state=PlanState.REQUESTED, found={})
    async with seen_by_later_reads(database):
        await database[NAME].insert_one(row, session=session)
    return _PLANS.read(row)


async def create_stopped(
    database: Database, scope: PlanScope, *, found: Mapping[str, int], repairs: Collection[PlannedRepair]
) -> ReconcilePlan:
    """Store the plan of a pass that stopped, with the repairs that it did not make.

    The repairs come first: a plan that can be approved is complete.
    """
    row = _new_row(scope, dry_run=False, requested_by=None, state=PlanState.STOPPED, found=found)
    plan = _PLANS.read(row)
    await add_repairs(database, plan, repairs)
    async with seen_by_later_reads(database):
        await database[NAME].insert_one(row)
    return plan


def _new_row(
    scope: PlanScope, *, dry_run: bool, requested_by: str | None, state: PlanState, found: Mapping[str, int]
) -> Row:
    return {
        "_id": str(ObjectId()),
        "organization_id": scope.organization_id,
        "kb_id": scope.kb_id,
        "document_id": scope.document_id,
        "dry_run": dry_run,
        "state": state,
        "requested_by": requested_by,
        "created_at": now(),
        "found": dict(found),
        "repaired": {},
    }


async def find(database: Database, organization_id: str, *, plan_id: str) -> ReconcilePlan | None:
    row = await database[NAME].find_one({"_id": plan_id, "organization_id": organization_id})
    return _PLANS.read(row) if row else None


async def find_page(
    database: Database, organization_id: str, *, skip: int, limit: int
) -> tuple[list[ReconcilePlan], int]:
    """Return a page of plans, newest first, and their total number."""
    query = {"organization_id": organization_id}
    rows = database[NAME].find(query).sort([("created_at", DESCENDING), ("_id", ASCENDING)]).skip(skip).limit(limit)
    return [_PLANS.read(row) async for row in rows], await database[NAME].count_documents(query)


async def approve(database: Database, organization_id: str, *, plan_id: str, by: str) -> ReconcilePlan | None:
    """Let the reconciler make the repairs of a plan; None if the plan does not wait for that."""
    waiting = {"$in": [PlanState.PLANNED, PlanState.STOPPED]}
    async with seen_by_later_reads(database):
        row = await database[NAME].find_one_and_update(
            {"_id": plan_id, "organization_id": organization_id, "state": waiting},
            {"$set": {"state": PlanState.APPROVED, "approved_by": by}},
            return_document=ReturnDocument.AFTER,
        )
    return _PLANS.read(row) if row else None


async def claim(database: Database, *, owner: str, lease: timedelta) -> ReconcilePlan | None:
    """Take a plan that waits for a reconciler, or whose reconciler has died. The oldest comes first."""
    until = {"$add": ["$$NOW", int(lease.total_seconds() * 1000)]}
    row = await database[NAME].find_one_and_update(
        {
            "$or": [
                {"state": {"$in": list(_UNCLAIMED)}},
                {"state": PlanState.RUNNING, "$expr": {"$lt": ["$lease_until", "$$NOW"]}},
            ]
        },
        [
            {
                "$set": {
                    "state": PlanState.RUNNING,
                    "lease_owner": {"$literal": owner},
                    "lease_until": until,
                    "compared": 0,
                }
            }
        ],
        sort=[("created_at", ASCENDING)],
        return_document=ReturnDocument.AFTER,
    )
    return _PLANS.read(row) if row else None


async def expect(database: Database, plan: ReconcilePlan, *, owner: str, slices: int) -> None:
    """Store how many slices the plan will probably compare."""
    await database[NAME].update_one(_held(plan, owner), {"$set": {"slices": slices}})


async def renew(database: Database, plan: ReconcilePlan, *, owner: str, lease: timedelta) -> bool:
    """Extend the lease and note that one more slice was compared; False if another reconciler has taken the plan."""
    until = {"$add": ["$$NOW", int(lease.total_seconds() * 1000)]}
    renewed = await database[NAME].update_one(
        _held(plan, owner), [{"$set": {"lease_until": until, "compared": {"$add": ["$compared", 1]}}}]
    )
    return renewed.matched_count == 1


async def finish(
    database: Database,
    plan: ReconcilePlan,
    *,
    owner: str,
    state: PlanState,
    found: Mapping[str, int],
    repaired: Mapping[str, int],
    skipped: Collection[str],
    error: str | None,
) -> None:
    """Store the outcome, unless another reconciler has taken the plan."""
    fields: Row = {
        "state": state,
        "found": dict(found),
        "repaired": dict(repaired),
        "skipped": list(skipped),
        "error": error,
        "finished_at": datetime.now(UTC),
    }
    await database[NAME].update_one(
        _held(plan, owner), {"$set": fields, "$unset": {"lease_owner": "", "lease_until": ""}}
    )


def _held(plan: ReconcilePlan, owner: str) -> Row:
    return {
        "_id": plan.plan_id,
        "organization_id": plan.organization_id,
        "state": PlanState.RUNNING,
        "lease_owner": owner,
    }


async def add_repairs(database: Database, plan: ReconcilePlan, repairs: Collection[PlannedRepair]) -> None:
    """Store repairs of a plan. Storing one again changes nothing."""
    writes = [
        UpdateOne(
            {
                "_id": f"{plan.plan_id}/{repair.kb_id}/{repair.kind}/{repair.document_id or ''}",
                "organization_id": plan.organization_id,
            },
            {
                "$setOnInsert": {
                    "plan_id": plan.plan_id,
                    "kb_id": repair.kb_id,
                    "kind": repair.kind,
                    "document_id": repair.document_id,
                    "created_at": plan.created_at,
                }
            },
            upsert=True,
        )
        for repair in repairs
    ]
    if writes:
        await upsert_all(database[REPAIRS], writes)


async def iterate_repairs(database: Database, plan: ReconcilePlan) -> AsyncIterator[PlannedRepair]:
    async for row in database[REPAIRS].find({"organization_id": plan.organization_id, "plan_id": plan.plan_id}):
        yield _PLANNED.read(row)


async def find_repairs_page(
    database: Database, plan: ReconcilePlan, *, skip: int, limit: int
) -> tuple[list[PlannedRepair], int]:
    """Return a page of the repairs of a plan, by KB, kind and document, and their total number."""
    query = {"organization_id": plan.organization_id, "plan_id": plan.plan_id}
    rows = database[REPAIRS].find(query).sort("_id", ASCENDING).skip(skip).limit(limit)
    return [_PLANNED.read(row) async for row in rows], await database[REPAIRS].count_documents(query)


async def find_examples(database: Database, plan: ReconcilePlan, *, kind: str, limit: int) -> list[str]:
    """Return the first documents with a kind of drift."""
    query = {"organization_id": plan.organization_id, "plan_id": plan.plan_id, "kind": kind}
    rows = database[REPAIRS].find(query, {"document_id": 1}).sort("_id", ASCENDING).limit(limit)
    return [row["document_id"] async for row in rows]


async def find_open_stop(database: Database, organization_id: str, *, kb_id: str) -> ReconcilePlan | None:
    """Return the plan of the last pass that stopped in a KB, if it still waits."""
    query = {
        "organization_id": organization_id,
        "kb_id": kb_id,
        "state": {"$in": [PlanState.STOPPED, PlanState.APPROVED, PlanState.RUNNING]},
        "requested_by": None,
    }
    row = await database[NAME].find_one(query, sort=[("created_at", DESCENDING)])
    return _PLANS.read(row) if row else None
