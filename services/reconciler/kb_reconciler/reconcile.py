"""Reconciles one KB: finds its drift slice by slice, and repairs it within limits."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_reconciler.drift.comparisons import find_chunk_drift, find_membership_drift
from kb_reconciler.drift.confirmation import confirm
from kb_reconciler.drift.kinds import Comparison, DocumentDrift, KnowledgeBaseDrift, RepairTools
from kb_reconciler.drift.missing_embedding import MISSING_EMBEDDING
from kb_reconciler.drift.registry import DOCUMENT_DRIFT, KNOWLEDGE_BASE_DRIFT
from kb_reconciler.drift.vector_comparison import find_vector_drift
from kb_reconciler.slices import Slice
from kb_shared.errors import TransientError
from kb_shared.mongo import document_index, index_jobs
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import BACKLOG_LIMIT
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.reconcile_plans import PlannedRepair
from kb_shared.observability import spans, tracing

MAX_REMOVED_SHARE: Final = 0.1
MAX_REMOVED: Final = 20
"""Number of documents that a pass may remove from a KB whatever its size."""
_ROOM_POLL_S: Final = 0.5

log = structlog.get_logger()

OnFound = Callable[[Collection[PlannedRepair]], Awaitable[None]]


async def ignore(_: Collection[PlannedRepair]) -> None:
    """Do nothing with what was found."""


@dataclass(frozen=True, slots=True)
class RepairRules:
    """Rules for repairs. The default is that of passes."""

    dry_run: bool = False
    """True: nothing is repaired."""
    approved: frozenset[PlannedRepair] | None = None
    """Only these are repaired, and they may remove as much as they do; None: all, within the limit of removals."""
    waits_for_room: bool = False
    """True: wait while the KB has enough open jobs; False: leave the others for the next pass."""

    def admits(self, repair: PlannedRepair) -> bool:
        return not self.dry_run and (self.approved is None or repair in self.approved)


@dataclass(slots=True)
class KnowledgeBaseReport:
    """Counts of a pass over one KB."""

    found: Counter[str] = field(default_factory=Counter)
    """Number of documents by kind of drift."""
    repaired: Counter[str] = field(default_factory=Counter)
    """Number of documents that were repaired, or queued for the indexer, by kind."""
    stopped: Counter[str] = field(default_factory=Counter)
    """Number of documents that the brake kept from being removed, by kind."""
    stopped_repairs: list[PlannedRepair] = field(default_factory=list)
    complete: bool = True
    """False if documents are left for the next pass, because the KB has enough open jobs."""


@dataclass(frozen=True, slots=True)
class KnowledgeBaseReconciler:
    """Reconciliation of one KB."""

    tools: RepairTools
    kb: KnowledgeBase
    unchanged_since: datetime
    """Time after which changed documents are left alone."""
    comparisons: Collection[Comparison]
    whole: bool
    """True: also look for drift of the KB as a whole."""
    rules: RepairRules = RepairRules()
    on_found: OnFound = ignore
    report: KnowledgeBaseReport = field(default_factory=KnowledgeBaseReport)

    @property
    def database(self) -> Database:
        return self.tools.database

    async def run(self, slices: AsyncIterator[Slice]) -> KnowledgeBaseReport:
        """Find and repair the drift of the documents in `slices`.

        Removals come last: only then it is known how many they are.
        """
        removals: dict[str, list[str]] = {}
        async for part in slices:
            found = await self._find(part)
            self.report.found.update(repair.kind for repair in found)
            await self.on_found(found)
            for kind, document_ids in self._admitted(found):
                if kind.removes:
                    removals.setdefault(kind.name, []).extend(document_ids)
                else:
                    await self._repair(kind, document_ids)
        await self._remove(removals)
        if self.whole:
            await self._reconcile_whole()
        tracing.annotate(
            {
                "kb.drift.found": self.report.found.total(),
                "kb.drift.repaired": self.report.repaired.total(),
                "kb.drift.stopped": self.report.stopped.total(),
            }
        )
        return self.report

    async def _find(self, part: Slice) -> list[PlannedRepair]:
        drift: dict[str, str] = {}
        if Comparison.MEMBERSHIP in self.comparisons:
            found = await find_membership_drift(self.database, self.kb, part)
            drift = await confirm(self.database, self.kb, found, unchanged_since=self.unchanged_since)
        if Comparison.CHUNKS in self.comparisons:
            drift = await find_chunk_drift(self.database, self.kb, part) | drift
        repairs = [self._plan(kind, document_id) for document_id, kind in drift.items()]
        if Comparison.VECTORS in self.comparisons:
            of_vectors = await find_vector_drift(self.database, self.kb, part)
            # A document that is indexed again gets sound vectors; before that, the cache gets those that it has.
            repairs += [
                self._plan(kind, document_id)
                for document_id, kind in of_vectors.items()
                if document_id not in drift or kind == MISSING_EMBEDDING.name
            ]
        return repairs

    def _plan(self, kind: str, document_id: str | None = None) -> PlannedRepair:
        return PlannedRepair(self.kb.kb_id, kind, document_id)

    def _admitted(self, found: Collection[PlannedRepair]) -> list[tuple[DocumentDrift, list[str]]]:
        admitted = [repair for repair in found if self.rules.admits(repair)]
        grouped = [
            (kind, sorted(repair.document_id or "" for repair in admitted if repair.kind == kind.name))
            for kind in DOCUMENT_DRIFT
        ]
        return [(kind, document_ids) for kind, document_ids in grouped if document_ids]

    async def _repair(self, kind: DocumentDrift, document_ids: Sequence[str]) -> None:
        while document_ids:
            room = await self._room() if kind.opens_jobs else len(document_ids)
            now, document_ids = document_ids[:room], document_ids[room:]
            if now:
                attributes: tracing.Attributes = {
                    "kb.kb_id": self.kb.kb_id,
                    "kb.drift.kind": kind.name,
                    "kb.documents": len(now),
                }
                with tracing.span(spans.REPAIR, attributes, of=kind.name):
                    repaired = await kind.repair(self.tools, self.kb, now)
                self.report.repaired[kind.name] += repaired
                log.info(
                    "drift.repaired",
                    kind=kind.name,
                    kb_id=self.kb.kb_id,
                    document_ids=list(now[:10]),
                    documents=repaired,
                )
            if document_ids and not self.rules.waits_for_room:
                self.report.complete = False
                return
            if document_ids:
                await asyncio.sleep(_ROOM_POLL_S)

    async def _room(self) -> int:
        """Count the jobs that the KB may get now."""
        open_jobs = await index_jobs.count_open(self.database, self.kb.key, limit=BACKLOG_LIMIT)
        return max(0, BACKLOG_LIMIT - open_jobs)

    async def _remove(self, removals: Mapping[str, Sequence[str]]) -> None:
        total = len(set().union(*removals.values()))
        if self.rules.approved is None and await self._are_too_many(total):
            self.report.stopped.update({name: len(document_ids) for name, document_ids in removals.items()})
            self.report.stopped_repairs.extend(
                self._plan(name, document_id) for name, document_ids in removals.items() for document_id in document_ids
            )
            return
        for kind in DOCUMENT_DRIFT:
            await self._repair(kind, removals.get(kind.name, ()))

    async def _are_too_many(self, removals: int) -> bool:
        """Return whether so many removals look like lost data, or a fault of the reconciler, and not like drift."""
        if removals <= MAX_REMOVED:
            return False
        return removals > MAX_REMOVED_SHARE * await document_index.count(self.database, self.kb.key)

    async def _reconcile_whole(self) -> None:
        for kind in KNOWLEDGE_BASE_DRIFT:
            try:
                await self._reconcile_kind(kind)
            except (PyMongoError, TransientError) as error:
                # A deployment without Atlas search has no search indexes, but the rest of its drift is repaired.
                log.warning("drift.repair_failed", kind=kind.name, kb_id=self.kb.kb_id, error=type(error).__name__)

    async def _reconcile_kind(self, kind: KnowledgeBaseDrift) -> None:
        if not await kind.detect(self.database, self.kb):
            return
        self.report.found[kind.name] += 1
        repair = self._plan(kind.name)
        await self.on_found([repair])
        if self.rules.admits(repair):
            with tracing.span(spans.REPAIR, {"kb.kb_id": self.kb.kb_id, "kb.drift.kind": kind.name}, of=kind.name):
                repaired = await kind.repair(self.database, self.kb)
            self.report.repaired[kind.name] += repaired
            self.report.complete &= repaired
            log.info("drift.repaired", kind=kind.name, kb_id=self.kb.kb_id, repaired=repaired)
