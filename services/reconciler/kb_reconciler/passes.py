"""Passes over the KBs of all organizations.

A full pass compares every document and its chunks, an incremental pass the documents that changed since the last pass
and the KBs that it did not finish.
"""

import random
from asyncio import sleep
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from time import monotonic
from typing import Any, Final

import structlog
from pymongo.errors import PyMongoError

from kb_reconciler import state as reconciler_state
from kb_reconciler.changes import find_changes
from kb_reconciler.deployment import repair_deployment
from kb_reconciler.drift.kinds import Comparison, RepairTools
from kb_reconciler.drift.registry import LEFTOVER_DRIFT, find_kinds
from kb_reconciler.leftovers import LeftoverReport, delete_leftovers
from kb_reconciler.reconcile import KnowledgeBaseReconciler, KnowledgeBaseReport
from kb_reconciler.slices import Slice, one_slice, split
from kb_reconciler.state import ReconcilerState
from kb_shared.errors import TransientError
from kb_shared.mongo import index_jobs, knowledge_bases, reconcile_passes, reconcile_plans, vectors
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.reconcile_passes import ReconcilePass
from kb_shared.mongo.reconcile_plans import PlanScope
from kb_shared.observability import spans, tracing
from kb_shared.observability.metrics import RECONCILER_DRIFT, RECONCILER_PASS_SECONDS, RECONCILER_REPAIRS

_OVERLAP: Final = timedelta(minutes=5)
"""Period that two incremental passes share: the clocks of indexers may differ by as much."""

_MAX_PAUSE_S: Final = 5.0
"""Length of the longest pause between two slices: the lease of the leader is longer."""

log = structlog.get_logger()


class PassKind(StrEnum):
    FULL = "full"
    INCREMENTAL = "incremental"


@dataclass(slots=True)
class DriftCounts:
    """Numbers of documents by kind of drift."""

    found: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)
    """Numbers of documents that the brake kept from being removed."""

    def add(self, report: KnowledgeBaseReport) -> None:
        self.found += report.found
        self.repaired += report.repaired
        self.stopped += report.stopped


@dataclass(slots=True)
class PassReport:
    """Counts of a pass over all KBs."""

    total: DriftCounts = field(default_factory=DriftCounts)
    of_organizations: dict[str, DriftCounts] = field(default_factory=dict)
    compared: dict[str, set[str]] = field(default_factory=dict)
    """KBs that were compared, by organization."""
    unfinished: dict[Comparison, set[str]] = field(default_factory=dict)
    """KBs that the next pass compares once more: drift was found there, or they could not be compared."""
    comparisons: set[Comparison] = field(default_factory=set)
    """Comparisons that were made in any KB."""
    skipped: int = 0
    """Number of KBs that could not be compared."""

    def add(self, work: "_Work", report: KnowledgeBaseReport) -> None:
        kb = work.kb
        self.total.add(report)
        self.of_organizations.setdefault(kb.organization_id, DriftCounts()).add(report)
        self.compared.setdefault(kb.organization_id, set()).add(kb.kb_id)
        self.comparisons |= work.comparisons
        # Drift that was repaired must not be found again. What was stopped would be.
        left = report.found - report.stopped
        if not report.complete or (work.is_whole and left):
            self.leave(kb, [Comparison.MEMBERSHIP, Comparison.CHUNKS])
        if any(left[kind.name] for kind in find_kinds([Comparison.VECTORS])):
            self.leave(kb, [Comparison.VECTORS])

    @property
    def unfinished_kb_ids(self) -> set[str]:
        return set().union(*self.unfinished.values())

    @property
    def stored_unfinished(self) -> dict[str, list[str]]:
        """Return `unfinished` as the state of the reconciler stores it."""
        return {comparison: sorted(kb_ids) for comparison, kb_ids in self.unfinished.items()}

    def leave(self, kb: KnowledgeBase, comparisons: Collection[Comparison]) -> None:
        """Leave a KB for the next pass."""
        for comparison in comparisons:
            self.unfinished.setdefault(comparison, set()).add(kb.kb_id)


@dataclass(frozen=True, slots=True)
class _Work:
    """Part of a pass: slices of one KB."""

    kb: KnowledgeBase
    slices: AsyncIterator[Slice]
    comparisons: frozenset[Comparison]
    is_whole: bool
    """True if the slices together are the whole KB."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Makes passes with one set of limits."""

    tools: RepairTools
    grace: timedelta
    """Age below which a change of a document is left alone."""
    leftover_grace: timedelta = timedelta(hours=12)
    """Time that data of KBs that do not exist is kept after it was found first."""

    @property
    def database(self) -> Database:
        return self.tools.database

    async def make_due_pass(self, *, full_interval: timedelta, still_leader: Callable[[], Awaitable[None]]) -> None:
        """Make a full pass if one is due, otherwise an incremental one.

        Raises:
            LeadershipLost: another replica has become the leader.
            TransientError: some KBs could not be compared; the next pass compares them.
        """
        state = await reconciler_state.begin(self.database)
        now = datetime.now(UTC)
        is_full = state.full_pass_due_at is not None and now >= state.full_pass_due_at
        await repair_deployment(self.database, thorough=is_full)
        if state.full_pass_due_at is None:
            # At a random time: not all deployments at the same minute, and not at each restart.
            due_at = now + full_interval * random.random()  # noqa: S311  # not for security
            await reconciler_state.save(self.database, state, full_pass_due_at=due_at)
        elif is_full:
            report = await self.full(still_leader)
            leftovers = await delete_leftovers(
                self.database, first_found=state.leftovers, now=now, grace=self.leftover_grace
            )
            _publish_leftovers(leftovers)
            await self._save(
                state, report, until=now, full_pass_due_at=now + full_interval, leftovers=leftovers.first_found
            )
            return
        report = await self.incremental(state, still_leader)
        await self._save(state, report, until=now)

    async def _save(self, state: ReconcilerState, report: PassReport, *, until: datetime, **fields: Any) -> None:
        await reconciler_state.save(
            self.database,
            state,
            compared_until=until - self.grace,
            unfinished=report.stored_unfinished,
            **fields,
        )
        if report.skipped:
            raise TransientError(f"{report.skipped} knowledge bases could not be compared")

    async def full(self, still_leader: Callable[[], Awaitable[None]]) -> PassReport:
        """Compare all documents of all active KBs with what is indexed of them, and with their chunks."""
        return await self._make(PassKind.FULL, self._everything(lambda _: frozenset(Comparison)), still_leader)

    async def incremental(self, state: ReconcilerState, still_leader: Callable[[], Awaitable[None]]) -> PassReport:
        """Compare the documents that changed since the last pass, and all documents of KBs that it did not finish."""
        return await self._make(PassKind.INCREMENTAL, self._changed(state), still_leader)

    async def _everything(
        self, choose_comparisons: Callable[[KnowledgeBase], frozenset[Comparison]]
    ) -> AsyncIterator[_Work]:
        for kb in await knowledge_bases.find_existing(self.database):
            comparisons = choose_comparisons(kb)
            if not comparisons:
                continue
            if kb.status is Status.ACTIVE:
                # A collection that was restored from a backup of an older version, or that an older replica has created
                # after the migration, lacks the index that chunks are compared by.
                await vectors.create_indexes(self.database[kb.vector_collection])
            yield _Work(kb, split(self.database, kb), comparisons, is_whole=True)

    async def _changed(self, state: ReconcilerState) -> AsyncIterator[_Work]:
        if state.unfinished:
            async for work in self._everything(lambda kb: state.find_unfinished(kb.kb_id)):
                yield work
        until = datetime.now(UTC) - self.grace
        since = (state.compared_until or until) - _OVERLAP
        async for kb, document_ids in find_changes(self.database, since=since, until=until):
            yield _Work(kb, one_slice(document_ids), frozenset([Comparison.MEMBERSHIP]), is_whole=False)

    async def _make(
        self,
        kind: PassKind,
        everything: AsyncIterator[_Work],
        still_leader: Callable[[], Awaitable[None]],
    ) -> PassReport:
        with tracing.trace(spans.RECONCILE_PASS, {"kb.pass": kind}) as span:
            report = await self._compare_all(kind, everything, still_leader)
            span.set(
                {
                    "kb.drift.found": report.total.found.total(),
                    "kb.drift.repaired": report.total.repaired.total(),
                    "kb.drift.stopped": report.total.stopped.total(),
                    "kb.skipped": report.skipped,
                }
            )
        return report

    async def _compare_all(
        self, kind: PassKind, everything: AsyncIterator[_Work], still_leader: Callable[[], Awaitable[None]]
    ) -> PassReport:
        report, started_at = PassReport(), datetime.now(UTC)
        async for work in everything:
            kb = work.kb
            if kb.status is not Status.ACTIVE:
                # It is being scanned, and what the scan has not reached yet is no drift; or it can't be indexed now.
                report.leave(kb, work.comparisons)
                continue
            await self._compare(work, report, still_leader)
        await reconcile_passes.add(self.database, _stored(kind, report, started_at))
        RECONCILER_PASS_SECONDS.labels(kind).observe((datetime.now(UTC) - started_at).total_seconds())
        _publish(kind, report)
        return report

    async def _compare(self, work: _Work, report: PassReport, still_leader: Callable[[], Awaitable[None]]) -> None:
        kb, here = work.kb, tracing.current_span()
        # A trace of its own: the documents of all KBs in one trace would be too many.
        with tracing.trace(
            spans.RECONCILE_KB,
            {"kb.organization_id": kb.organization_id, "kb.kb_id": kb.kb_id},
            links=[here] if here is not None else [],
        ):
            try:
                reconciler = KnowledgeBaseReconciler(
                    self.tools,
                    kb,
                    unchanged_since=datetime.now(UTC) - self.grace,
                    comparisons=work.comparisons,
                    whole=Comparison.CHUNKS in work.comparisons,
                )
                slices = _yield_to_indexing(self.database, work.slices)
                result = await reconciler.run(_while_leader(slices, still_leader))
                report.add(work, result)
                await self._store_stopped(kb, result)
            except (PyMongoError, TransientError) as error:
                # The other KBs may succeed.
                log.warning("knowledge_base.skipped", kb_id=kb.kb_id, error=type(error).__name__)
                report.skipped += 1
                report.leave(kb, work.comparisons)

    async def _store_stopped(self, kb: KnowledgeBase, result: KnowledgeBaseReport) -> None:
        """Store a plan for the removals that were not made, unless one waits for a person already."""
        if not result.stopped_repairs:
            return
        if await reconcile_plans.find_open_stop(self.database, kb.organization_id, kb_id=kb.kb_id) is not None:
            return
        plan = await reconcile_plans.create_stopped(
            self.database, PlanScope(kb.organization_id, kb.kb_id), found=result.stopped, repairs=result.stopped_repairs
        )
        log.error("removals.stopped", kb_id=kb.kb_id, plan_id=plan.plan_id, documents=result.stopped.total())


async def _while_leader(
    slices: AsyncIterator[Slice], still_leader: Callable[[], Awaitable[None]]
) -> AsyncIterator[Slice]:
    async for part in slices:
        await still_leader()
        yield part


async def _yield_to_indexing(database: Database, slices: AsyncIterator[Slice]) -> AsyncIterator[Slice]:
    """Pause after each slice for as long as it took, while any document waits to be indexed.

    So a pass takes at most half of the time of a core of MongoDB from the indexers.
    """
    async for part in slices:
        began = monotonic()
        yield part
        took_s = monotonic() - began
        if await index_jobs.count_all_open(database, limit=1):
            await sleep(min(took_s, _MAX_PAUSE_S))


def _stored(kind: PassKind, report: PassReport, started_at: datetime) -> list[ReconcilePass]:
    return [
        ReconcilePass(
            organization_id=organization_id,
            kind=kind,
            started_at=started_at,
            finished_at=datetime.now(UTC),
            knowledge_bases=len(report.compared[organization_id]),
            found=dict(counts.found),
            repaired=dict(counts.repaired),
            stopped=dict(counts.stopped),
        )
        for organization_id, counts in report.of_organizations.items()
        if kind is PassKind.FULL or counts.found
    ]


def _publish(kind: PassKind, report: PassReport) -> None:
    # Kinds that were not looked for keep what the last pass found that did.
    for drift in find_kinds(report.comparisons | {Comparison.MEMBERSHIP}):
        RECONCILER_DRIFT.labels(drift.name).set(report.total.found[drift.name])
    for outcome, counts in (("repaired", report.total.repaired), ("stopped", report.total.stopped)):
        for name, number in counts.items():
            RECONCILER_REPAIRS.labels(name, outcome).inc(number)
    log.info(
        "pass.finished",
        kind=kind,
        found=dict(report.total.found),
        repaired=dict(report.total.repaired),
        stopped=dict(report.total.stopped),
        unfinished=len(report.unfinished_kb_ids),
        skipped=report.skipped,
    )


def _publish_leftovers(report: LeftoverReport) -> None:
    for drift in LEFTOVER_DRIFT:
        RECONCILER_DRIFT.labels(drift.name).set(report.found[drift.name])
        RECONCILER_REPAIRS.labels(drift.name, "repaired").inc(report.deleted[drift.name])
