"""What stands in a document, as it is indexed now: what a search has found in part can be read on."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from kb_shared.errors import NotFound
from kb_shared.mongo import document_index, knowledge_bases, vectors
from kb_shared.mongo.database import Database, MongoSession, Row, in_transaction
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase


@dataclass(frozen=True, slots=True)
class DocumentChunks:
    kb: KnowledgeBase
    chunks: Sequence[Row]
    """In the order of the document, all of one version."""
    skip: int
    total_count: int

    @property
    def next_skip(self) -> int | None:
        """Return the position of the next page; None at the end."""
        after = self.skip + len(self.chunks)
        return after if self.chunks and after < self.total_count else None


async def document_chunks(
    database: Database,
    organization_id: str,
    kb_id: str,
    document_id: str,
    *,
    skip: int,
    limit: int,
    max_tokens: int,
) -> DocumentChunks:
    """Read some chunks of a document in a KB: at most `limit`, and no more than have room, but one.

    Raises:
        NotFound: no such KB of the organization, or the document is not in it.
    """
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(organization_id, kb_id))

    async def read(session: MongoSession) -> DocumentChunks:
        membership = MembershipKey(organization_id, kb_id, document_id)
        if await document_index.find(database, membership, session=session) is None:
            raise NotFound("document")
        chunks = vectors.chunks_of(database, kb)
        rows, total_count = await vectors.find_page_of_document(chunks, session, document_id, skip=skip, limit=limit)
        return DocumentChunks(kb, _with_room(rows, max_tokens), skip, total_count)

    return await in_transaction(database, read)


def _with_room(rows: Sequence[Row], max_tokens: int) -> Sequence[Row]:
    """The first of them; one at least, or nobody would get on."""
    sums = accumulate(row["token_count"] for row in rows)
    return rows[: max(1, sum(1 for tokens in sums if tokens <= max_tokens))]
