"""`orphan_vectors`: chunks of a document that has no row in `document_index`."""

from collections.abc import Sequence

from kb_reconciler.drift.kinds import HAS_NO_ROW, Comparison, DocumentDrift, RepairTools
from kb_shared.mongo import document_index, vectors
from kb_shared.mongo.database import Database, MongoSession, Row, in_transaction
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase


def _condition(_: KnowledgeBase) -> Row:
    return HAS_NO_ROW


async def _delete(tools: RepairTools, kb: KnowledgeBase, document_ids: Sequence[str]) -> int:
    return sum([await delete_orphans(tools.database, kb, document_id) for document_id in document_ids])


async def delete_orphans(database: Database, kb: KnowledgeBase, document_id: str) -> bool:
    """Delete all chunks of a document in one transaction, unless it has a row; return whether it had none.

    The transaction writes the row, as each swap does first, so a swap of the same document conflicts with it.
    """
    key = MembershipKey(kb.organization_id, kb.kb_id, document_id)

    async def work(session: MongoSession) -> bool:
        _, row = await document_index.begin_swap(database, session, key)
        if row is None:
            await vectors.delete_document(vectors.chunks_of(database, kb), session, document_id)
            await document_index.delete(database, session, key)
        return row is None

    return await in_transaction(database, work)


ORPHAN_VECTORS = DocumentDrift(
    "orphan_vectors", Comparison.CHUNKS, _condition, repair=_delete, opens_jobs=False, removes=True
)
