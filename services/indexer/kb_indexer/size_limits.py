"""Limits the documents and chunks of a KB: a document beyond the limits fails before its chunks are paid for."""

from dataclasses import dataclass
from typing import Final

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.errors import KnowledgeBaseFull
from kb_shared.mongo import document_index, kb_slots
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase

COUNTED_FOR_S: Final = 5.0
"""Time for which a count is used: a KB can exceed its limit by the work of a few seconds."""
_MOST_KNOWN: Final = 10_000
_WHAT_TO_DO: Final = "Raise the limit or take documents away, then POST .../retry-failed."


@dataclass(frozen=True, slots=True)
class _Size:
    documents: int
    chunks: int


class SizeLimits:
    """Checks the limits. One for a process."""

    def __init__(self, database: Database, *, max_documents: int, max_chunks: int) -> None:
        """Construct it; 0 is no limit."""
        self._database = database
        self._max_documents = max_documents
        self._max_chunks = max_chunks
        self._sizes: BoundedCache[str, _Size] = BoundedCache(_MOST_KNOWN, lifetime_s=COUNTED_FOR_S)

    async def check(self, kb: KnowledgeBase, document_id: str, *, chunks: int = 1) -> None:
        """Raise KnowledgeBaseFull if the KB has no room for the document with so many chunks.

        A document that is in the KB already may always have as many chunks as it has there.
        """
        if not self._max_documents and not self._max_chunks:
            return
        if self._has_room(await self._size(kb), chunks):
            return
        # Documents may have been removed since the last count.
        size = await self._count(kb)
        if self._has_room(size, chunks):
            return
        indexed = await document_index.find(self._database, MembershipKey(kb.organization_id, kb.kb_id, document_id))
        if self._max_documents and size.documents >= self._max_documents and indexed is None:
            raise KnowledgeBaseFull(
                f"the knowledge base has {size.documents} documents, and may have {self._max_documents} "
                f"(KB_MAX_DOCUMENTS_OF_KNOWLEDGE_BASE). {_WHAT_TO_DO}"
            )
        own = 0 if indexed is None else indexed.chunk_count
        others = size.chunks - own
        if self._max_chunks and chunks > own and others + chunks > self._max_chunks:
            raise KnowledgeBaseFull(
                f"the knowledge base has {others} other chunks and may have {self._max_chunks}, which leaves no room "
                f"for the {chunks} of this document (KB_MAX_CHUNKS_OF_KNOWLEDGE_BASE). {_WHAT_TO_DO}"
            )

    def _has_room(self, size: _Size, chunks: int) -> bool:
        for_document = not self._max_documents or size.documents < self._max_documents
        return for_document and (not self._max_chunks or size.chunks + chunks <= self._max_chunks)

    async def _size(self, kb: KnowledgeBase) -> _Size:
        return self._sizes.find(kb.kb_id) or await self._count(kb)

    async def _count(self, kb: KnowledgeBase) -> _Size:
        totals = await kb_slots.sum_counters(self._database, kb.organization_id, kb_ids=[kb.kb_id])
        size = _Size(*totals.get(kb.kb_id, (0, 0)))
        self._sizes.put(kb.kb_id, size)
        return size
