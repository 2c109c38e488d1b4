"""Stores the KB that contains the entries of an organization, with the first of them.

The embedding model is not asked, so that entries can be written while it is away: the life cycle in kb-api asks it.
"""

from typing import Final

from kb_contracts.knowledge.entry_fields import FILTERABLE_ENTRY_FIELDS
from kb_contracts.reserved_ids import KNOWLEDGE_TAG
from kb_knowledge.source import SOURCE
from kb_shared.identifiers import new_kb_id
from kb_shared.messaging.new_knowledge_bases import store_new_knowledge_base
from kb_shared.mongo import knowledge_bases, organizations
from kb_shared.mongo.database import Database, MongoSession
from kb_shared.mongo.knowledge_bases import UNKNOWN_DIMENSIONS, KnowledgeBase, KnowledgeBaseKind, Status
from kb_shared.mongo.stored_time import now
from kb_shared.settings import KnowledgeBaseSettings
from kb_shared.text import text_normalization

NAME: Final = "Knowledge"
_CHUNKER: Final = "recursive"


async def ensure_knowledge_base(
    database: Database, session: MongoSession, settings: KnowledgeBaseSettings, *, organization_id: str, by: str
) -> None:
    """Store the KB unless the organization has it. Of concurrent transactions only one stores it."""
    if await knowledge_bases.find_knowledge(database, organization_id, session=session) is not None:
        return
    # Another transaction that found none writes this row, too, so one of the two begins again, and finds the KB.
    await organizations.serialize_transactions(database, session, organization_id)
    await store_new_knowledge_base(database, session, _create(settings, organization_id, by=by), source=SOURCE)


def _create(settings: KnowledgeBaseSettings, organization_id: str, *, by: str) -> KnowledgeBase:
    kb_id, created_at = new_kb_id(), now()
    return KnowledgeBase(
        kb_id=kb_id,
        organization_id=organization_id,
        kind=KnowledgeBaseKind.KNOWLEDGE,
        name=NAME,
        description="Entries of the organization: what people write, import or have fetched.",
        tag_ids=(KNOWLEDGE_TAG,),
        tags_version=1,
        chunker_type=_CHUNKER,
        chunk_size=settings.default_chunk_size,
        chunk_overlap=min(settings.default_chunk_overlap, settings.default_chunk_size // 4),
        embedding_model=settings.embedding_model,
        embedding_dimensions=UNKNOWN_DIMENSIONS,
        max_chunks_per_document=settings.max_chunks_per_document,
        status=Status.CREATING,
        status_reason=None,
        vector_collection=knowledge_bases.build_collection_name(kb_id),
        created_at=created_at,
        updated_at=created_at,
        created_by=by,
        updated_by=by,
        text_normalization=text_normalization.CURRENT,
        filterable_metadata=FILTERABLE_ENTRY_FIELDS,
    )
