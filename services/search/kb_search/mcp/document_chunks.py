"""Reads consecutive chunks of a document as it is indexed now, for example those around a search result."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from kb_shared.errors import NotFound
from kb_shared.mongo import document_index, knowledge_bases, vectors
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.vectors import StoredChunk


@dataclass(frozen=True, slots=True)
class DocumentChunks:
    """A page of the chunks of a document in a KB."""

    kb: KnowledgeBase
    chunks: Sequence[StoredChunk]
    """Chunks in the order of the document, all of one version."""
    skip: int
    total_count: int

    @property
    def next_skip(self) -> int | None:
        """Return the position of the next page; None at the end."""
        after = self.skip + len(self.chunks)
        return after if self.chunks and after < self.total_count else None


async def read_document_chunks(
    database: Database, membership: MembershipKey, *, skip: int, limit: int, max_tokens: int
) -> DocumentChunks:
    """Read a page of a document's chunks: at most `limit`, and at most `max_tokens` in all but at least one chunk.

    Raises:
        NotFound: The organization has no such KB, or the document is not in it.
    """
    kb = await knowledge_bases.get(database, membership.knowledge_base)

    async def read(session: MongoSession) -> DocumentChunks:
        if await document_index.find(database, membership, session=session) is None:
            raise NotFound("document")
        chunks_of_kb = vectors.chunks_of(database, kb)
        chunks, total_count = await vectors.find_page_of_document(
            chunks_of_kb, session, membership.document_id, skip=skip, limit=limit
        )
        return DocumentChunks(kb, _take_within(chunks, max_tokens), skip, total_count)

    return await in_transaction(database, read)


def _take_within(chunks: Sequence[StoredChunk], max_tokens: int) -> Sequence[StoredChunk]:
    """Return the first chunks that fit; at least one, so that a reader can always continue."""
    sums = accumulate(chunk.token_count for chunk in chunks)
    return chunks[: max(1, sum(1 for tokens in sums if tokens <= max_tokens))]
