"""`wrong_totals`: the numbers of documents and chunks in the KB slots differ from the rows in `document_index`."""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Final

from kb_reconciler.drift.kinds import KnowledgeBaseDrift
from kb_shared.mongo import document_index, kb_slots
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.majority import current_snapshot

_MAX_ATTEMPTS: Final = 5


async def _detect(database: Database, kb: KnowledgeBase) -> bool:
    """Compare the sums over all slots: only they are shown and limited."""
    async with current_snapshot(database) as snapshot:
        slots = await kb_slots.read_counters(database, snapshot, kb.key)
        actual = await document_index.count_chunks(database, snapshot, kb.key)
    return (sum(slot.documents for slot in slots), sum(slot.chunks for slot in slots)) != actual


@dataclass(slots=True)
class _SlotCount:
    documents: int = 0
    chunks: int = 0


async def _repair(database: Database, kb: KnowledgeBase) -> bool:
    for _ in range(_MAX_ATTEMPTS):
        if await _correct(database, kb):
            return True
    return False


async def _correct(database: Database, kb: KnowledgeBase) -> bool:
    """Set the counters of all slots; return False if a swap has written one of them meanwhile."""
    counts: defaultdict[str, _SlotCount] = defaultdict(_SlotCount)
    async with current_snapshot(database) as snapshot:
        slots = await kb_slots.read_counters(database, snapshot, kb.key)
        async for document_id, chunk_count in document_index.iterate_chunk_counts(database, snapshot, kb.key):
            count = counts[kb_slots.row_id(kb_id=kb.kb_id, document_id=document_id)]
            count.documents += 1
            count.chunks += chunk_count
    unchanged = True
    for slot in slots:
        count = counts[slot.slot_id]
        if (slot.documents, slot.chunks) != (count.documents, count.chunks):
            corrected = replace(slot, documents=count.documents, chunks=count.chunks)
            unchanged &= await kb_slots.correct_counters(database, kb.key, corrected)
    return unchanged


WRONG_TOTALS = KnowledgeBaseDrift("wrong_totals", _detect, _repair)
