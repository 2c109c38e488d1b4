"""Opens the passages that search results and citations name, and the chunks around them.

The id of a chunk always means the same text. When its document changes, the chunk is deleted, and nothing remembers its
id. So an id that can't be opened counts as replaced if this organization has, or had, the document that it names; any
other id never was a passage of the organization.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kb_shared.errors import NotFound, RequestError
from kb_shared.http.authentication import Caller
from kb_shared.mongo import document_index, documents, knowledge_bases, vectors
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.keys import DocumentKey, KnowledgeBaseKey, MembershipKey
from kb_shared.mongo.vectors import ListedChunk


class PassageReplaced(RequestError):
    """Passage of a document that has changed, was deleted, or has left the KB since."""

    def __init__(self, document_id: str) -> None:
        super().__init__(
            410,
            "passage-replaced",
            "The document of this passage has changed or left the knowledge base since the passage was found. A run "
            "that cites it has its text; GET /documents/{document_id}/chunks shows what is indexed now.",
            extra={"document_id": document_id},
        )


@dataclass(frozen=True, slots=True)
class ChunkPage:
    """Consecutive chunks of a document, all of one version."""

    document_id: str
    version: int
    chunks: Sequence[ListedChunk]
    skip: int
    total_count: int


async def open_passage(database: Database, caller: Caller, *, kb_id: str, chunk_id: str) -> ListedChunk:
    """Return a chunk of a KB.

    A key that is limited to KBs learns that a passage is gone only while its document is in this KB: it must not find
    out which other documents the organization has.

    Raises:
        NotFound: There is no such KB, or no such passage ever was in this organization.
        PassageReplaced: It is gone.
    """
    kb = await knowledge_bases.get(database, KnowledgeBaseKey(caller.organization_id, kb_id))
    if not vectors.is_chunk_id(chunk_id):
        raise NotFound("passage")
    chunk = await vectors.find_live_chunk(vectors.chunks_of(database, kb), chunk_id)
    if chunk is None:
        key = MembershipKey(caller.organization_id, kb_id, vectors.document_of(chunk_id))
        if caller.kb_ids is not None and await document_index.find(database, key) is None:
            raise NotFound("passage")
        raise await _explain_absence(database, key.document)
    return chunk


async def read_chunks(
    database: Database, key: MembershipKey, *, around: str | None, skip: int, limit: int
) -> ChunkPage:
    """Read a page of the chunks of a document, or the one that has the chunk `around` in its middle.

    Raises:
        NotFound: There is no such KB, the document is not in it, or `around` is no chunk of this document.
        PassageReplaced: The chunk `around` is gone.
    """
    kb = await knowledge_bases.get(database, key.knowledge_base)
    if around is not None and not (vectors.is_chunk_id(around) and vectors.document_of(around) == key.document_id):
        raise NotFound("passage")
    chunks = vectors.chunks_of(database, kb)

    async def read(session: MongoSession) -> ChunkPage | None:
        indexed = await document_index.find(database, key, session=session)
        if indexed is None:
            raise NotFound("document")
        begin = skip
        if around is not None:
            middle = await vectors.find_live_chunk(chunks, around, session=session)
            if middle is None:
                return None
            begin = max(0, middle.chunk_index - limit // 2)
        found, total_count = await vectors.find_page_of_document(
            chunks, session, key.document_id, skip=begin, limit=limit
        )
        return ChunkPage(key.document_id, indexed.version, found, begin, total_count)

    page = await in_transaction(database, read)
    if page is None:
        raise await _explain_absence(database, key.document)
    return page


async def _explain_absence(database: Database, document: DocumentKey) -> RequestError:
    if await documents.find(database, document) is None:
        return NotFound("passage")
    return PassageReplaced(document.document_id)
