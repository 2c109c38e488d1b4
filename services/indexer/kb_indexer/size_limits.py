"""Limits the documents and chunks of a KB, and what the chunks carry.

A document beyond the limits fails before its chunks are paid for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kb_contracts.metadata import MetadataValue
from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.errors import DocumentUnfit, KnowledgeBaseFull
from kb_shared.mongo import document_index, kb_slots
from kb_shared.mongo.database import Database
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase

COUNTED_FOR_S: Final = 5.0
"""Time for which a count is used: a KB can exceed its limit by the work of a few seconds."""
MAX_METADATA_COPIES_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the metadata in all chunks of a document. They are written in one transaction: several times as many do not
fit into the cache of a small MongoDB, which then undoes the transaction for ever."""
_BYTES_OF_OTHERS: Final = 8
_MOST_KNOWN: Final = 10_000
_WHAT_TO_DO: Final = "Raise the limit or take documents away, then POST .../retry-failed."


@dataclass(frozen=True, slots=True)
class _Size:
    documents: int
    chunks: int


def check_metadata_size(metadata: Mapping[str, MetadataValue], *, chunks: int) -> None:
    """Raise DocumentUnfit if the metadata are too large for so many chunks, each of which has a copy of them."""
    size = sum(len(key.encode()) + _size_of(value) for key, value in metadata.items())
    if size * chunks > MAX_METADATA_COPIES_BYTES:
        raise DocumentUnfit(
            f"its metadata have {size:,} bytes, and each of its {chunks:,} chunks has a copy of them: more than "
            f"{MAX_METADATA_COPIES_BYTES:,} bytes together. Leave out long values, or choose a larger chunk_size."
        )


def _size_of(value: MetadataValue) -> int:
    return len(value.encode()) if isinstance(value, str) else _BYTES_OF_OTHERS


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
