"""Reconciles one KB: finds its drift slice by slice, and repairs it within limits."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import structlog

from kb_reconciler.drift.comparisons import find_chunk_drift, find_membership_drift
from kb_reconciler.drift.confirmation import confirm
from kb_reconciler.drift.kinds import DocumentDrift, RepairTools
from kb_reconciler.drift.registry import DOCUMENT_DRIFT, KNOWLEDGE_BASE_DRIFT
from kb_reconciler.slices import Slice
from kb_shared.mongo import document_index, index_jobs
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import BACKLOG_LIMIT
from kb_shared.mongo.knowledge_bases import KnowledgeBase

MAX_REMOVED_SHARE: Final = 0.1
MAX_REMOVED: Final = 20
"""Number of documents that a pass may remove from a KB whatever its size."""

log = structlog.get_logger()


@dataclass(slots=True)
class KnowledgeBaseReport:
    """Counts of a pass over one KB."""

    found: Counter[str] = field(default_factory=Counter)
    """Number of documents by kind of drift."""
    repaired: Counter[str] = field(default_factory=Counter)
    """Number of documents that were repaired, or queued for the indexer, by kind."""
    stopped: Counter[str] = field(default_factory=Counter)
    """Number of documents that the brake kept from being removed, by kind."""
    complete: bool = True
    """False if documents are left for the next pass, because the KB has enough open jobs."""


async def reconcile_kb(
    tools: RepairTools,
    kb: KnowledgeBase,
    slices: AsyncIterator[Slice],
    *,
    unchanged_since: datetime,
    thorough: bool,
) -> KnowledgeBaseReport:
    """Find and repair the drift of the documents in `slices`.

    Removals come last: only then it is known how many they are.

    Args:
        unchanged_since: documents that changed later are left alone.
        thorough: also compare the chunks of each document with its row, and what concerns the KB as a whole.
    """
    report = KnowledgeBaseReport()
    removals: dict[str, list[str]] = {}
    async for part in slices:
        found = await find_membership_drift(tools.database, kb, part)
        drift = await confirm(tools.database, kb, found, unchanged_since=unchanged_since)
        if thorough:
            drift = await find_chunk_drift(tools.database, kb, part) | drift
        report.found.update(drift.values())
        for kind, document_ids in _by_kind(drift):
            if kind.removes:
                removals.setdefault(kind.name, []).extend(document_ids)
            else:
                await _repair(tools, kb, report, kind=kind, document_ids=document_ids)
    await _remove(tools, kb, report, removals=removals)
    if thorough:
        await _reconcile_whole(tools.database, kb, report)
    return report


def _by_kind(drift: Mapping[str, str]) -> list[tuple[DocumentDrift, list[str]]]:
    grouped = [(kind, sorted(i for i, name in drift.items() if name == kind.name)) for kind in DOCUMENT_DRIFT]
    return [(kind, document_ids) for kind, document_ids in grouped if document_ids]


async def _repair(
    tools: RepairTools,
    kb: KnowledgeBase,
    report: KnowledgeBaseReport,
    *,
    kind: DocumentDrift,
    document_ids: Sequence[str],
) -> None:
    room = BACKLOG_LIMIT - await index_jobs.count_open(tools.database, kb.key, limit=BACKLOG_LIMIT)
    if room < len(document_ids):
        report.complete = False
    admitted = document_ids[: max(room, 0)]
    if admitted:
        repaired = await kind.repair(tools, kb, admitted)
        report.repaired[kind.name] += repaired
        log.info("drift.repaired", kind=kind.name, kb_id=kb.kb_id, document_ids=list(admitted[:10]), documents=repaired)


async def _remove(
    tools: RepairTools, kb: KnowledgeBase, report: KnowledgeBaseReport, *, removals: Mapping[str, Sequence[str]]
) -> None:
    total = len(set().union(*removals.values()))
    if await _is_too_many(tools, kb, total):
        report.stopped.update({name: len(document_ids) for name, document_ids in removals.items()})
        log.error("removals.stopped", kb_id=kb.kb_id, documents=total)
        return
    for kind in DOCUMENT_DRIFT:
        if document_ids := removals.get(kind.name):
            await _repair(tools, kb, report, kind=kind, document_ids=document_ids)


async def _reconcile_whole(database: Database, kb: KnowledgeBase, report: KnowledgeBaseReport) -> None:
    for kind in KNOWLEDGE_BASE_DRIFT:
        if await kind.detect(database, kb):
            report.found[kind.name] += 1
            repaired = await kind.repair(database, kb)
            report.repaired[kind.name] += repaired
            report.complete &= repaired
            log.info("drift.repaired", kind=kind.name, kb_id=kb.kb_id, repaired=repaired)


async def _is_too_many(tools: RepairTools, kb: KnowledgeBase, removed: int) -> bool:
    """Return whether the removals look like a fault of the reconciler, or of what it compares, and not like drift."""
    if removed <= MAX_REMOVED:
        return False
    return removed > MAX_REMOVED_SHARE * await document_index.count(tools.database, kb.key)
