"""Executes the plans that kb-api stores: reconciles a document, a KB or an organization on request."""

from collections import Counter
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_reconciler.drift.kinds import Comparison, RepairTools
from kb_reconciler.reconcile import KnowledgeBaseReconciler, KnowledgeBaseReport, RepairRules, ignore
from kb_reconciler.slices import SLICE_SIZE, Slice, one_slice, split
from kb_shared.concurrency.work_signal import PollPause, WorkSignal
from kb_shared.errors import TransientError
from kb_shared.failpoints import reach
from kb_shared.mongo import document_index, knowledge_bases, reconcile_plans, vectors
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.reconcile_plans import PlannedRepair, PlanState, ReconcilePlan
from kb_shared.observability import spans, tracing

LEASE: Final = timedelta(seconds=60)
_PAUSE_S: Final = 1.0
"""Pause between two looks for plans while there may be some."""

log = structlog.get_logger()


class PlanLost(Exception):
    """Another reconciler has taken the plan: end its execution here."""


@dataclass(frozen=True, slots=True)
class PlanRunner:
    """Executes plans one after the other. Every replica runs one; a plan is executed by one of them."""

    tools: RepairTools
    grace: timedelta
    """Age below which a change of a document is left alone."""
    owner: str
    lease: timedelta = LEASE
    signal: WorkSignal = field(default_factory=WorkSignal)
    """Wakes it when a plan may be waiting."""

    @property
    def database(self) -> Database:
        return self.tools.database

    async def run(self) -> None:
        """Execute plans for ever; cancel to stop. Another replica continues what is cancelled."""
        pause = PollPause(self.signal, shortest_s=_PAUSE_S)
        while True:
            began = monotonic()
            try:
                if await self.execute_next():
                    continue
                interrupted = False
            except (PyMongoError, TransientError) as error:
                # Its lease expires, and then it is executed once more.
                log.warning("plan.interrupted", error=type(error).__name__)
                interrupted = True
            await pause.after_poll(found=interrupted, poll_took_s=monotonic() - began)

    async def execute_next(self) -> bool:
        """Execute the oldest waiting plan; return whether there was one."""
        plan = await reconcile_plans.claim(self.database, owner=self.owner, lease=self.lease)
        if plan is None:
            return False
        with tracing.trace(
            spans.RECONCILE_PLAN, {"kb.organization_id": plan.organization_id, "kb.plan_id": plan.plan_id}
        ):
            try:
                await self._execute(plan)
            except PlanLost:
                log.warning("plan.lost", plan_id=plan.plan_id)
        return True

    async def _execute(self, plan: ReconcilePlan) -> None:
        outcome = _PlanOutcome()
        try:
            await self._reconcile(plan, outcome)
        except (PyMongoError, TransientError, PlanLost):
            raise
        except Exception as error:
            # Any other error would come again: the plan must not end one replica after the other.
            log.exception("plan.failed", plan_id=plan.plan_id)
            outcome.error = type(error).__name__
        await reach("plan.before_finish")
        await reconcile_plans.finish(
            self.database,
            plan,
            owner=self.owner,
            state=outcome.state(plan),
            found=outcome.found,
            repaired=outcome.repaired,
            skipped=outcome.skipped,
            error=outcome.error,
        )
        log.info(
            "plan.finished",
            plan_id=plan.plan_id,
            state=outcome.state(plan),
            found=dict(outcome.found),
            repaired=dict(outcome.repaired),
        )

    async def _reconcile(self, plan: ReconcilePlan, outcome: "_PlanOutcome") -> None:
        async def store(found: Collection[PlannedRepair]) -> None:
            await reconcile_plans.add_repairs(self.database, plan, found)

        rules = RepairRules(dry_run=plan.lists_only, approved=await self._approved(plan), waits_for_room=True)
        kbs = await self._knowledge_bases(plan)
        active = [kb for kb in kbs if kb.status is Status.ACTIVE]
        outcome.skipped.extend(kb.kb_id for kb in kbs if kb.status is not Status.ACTIVE)
        await self._announce_slices(plan, active)
        for kb in active:
            reconciler = KnowledgeBaseReconciler(
                self.tools,
                kb,
                unchanged_since=datetime.now(UTC) - self.grace,
                comparisons=frozenset(Comparison),
                whole=plan.document_id is None,
                rules=rules,
                on_found=store if plan.lists_only else ignore,
            )
            with tracing.span(spans.RECONCILE_KB, {"kb.organization_id": kb.organization_id, "kb.kb_id": kb.kb_id}):
                report = await reconciler.run(self._while_held(plan, kb))
            outcome.add(report)
            await store(report.stopped_repairs)

    async def _announce_slices(self, plan: ReconcilePlan, kbs: list[KnowledgeBase]) -> None:
        slices = len(kbs)
        if plan.document_id is None:
            for kb in kbs:
                slices += await document_index.count(self.database, kb.key) // SLICE_SIZE
        await reconcile_plans.expect(self.database, plan, owner=self.owner, slices=slices)

    async def _approved(self, plan: ReconcilePlan) -> frozenset[PlannedRepair] | None:
        if plan.approved_by is None:
            return None
        return frozenset([repair async for repair in reconcile_plans.iterate_repairs(self.database, plan)])

    async def _knowledge_bases(self, plan: ReconcilePlan) -> list[KnowledgeBase]:
        if plan.kb_id is None:
            return await knowledge_bases.find_of_organization(self.database, plan.organization_id)
        kb = await knowledge_bases.find(self.database, KnowledgeBaseKey(plan.organization_id, plan.kb_id))
        return [] if kb is None or kb.status is Status.DELETING else [kb]

    async def _while_held(self, plan: ReconcilePlan, kb: KnowledgeBase) -> AsyncIterator[Slice]:
        """Yield the slices of the plan in a KB, as long as no other reconciler has taken it."""
        await vectors.create_indexes(self.database[kb.vector_collection])
        slices = split(self.database, kb) if plan.document_id is None else one_slice([plan.document_id])
        async for part in slices:
            if not await reconcile_plans.renew(self.database, plan, owner=self.owner, lease=self.lease):
                raise PlanLost
            yield part


@dataclass(slots=True)
class _PlanOutcome:
    """Outcome of a plan over all its KBs."""

    found: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)
    """KBs that were not compared, because they are not active."""
    stopped: int = 0
    error: str | None = None

    def add(self, report: KnowledgeBaseReport) -> None:
        self.found += report.found
        self.repaired += report.repaired
        self.stopped += report.stopped.total()

    def state(self, plan: ReconcilePlan) -> PlanState:
        if self.error is not None:
            return PlanState.FAILED
        if self.stopped:
            return PlanState.STOPPED
        return PlanState.PLANNED if plan.lists_only and self.found else PlanState.DONE
