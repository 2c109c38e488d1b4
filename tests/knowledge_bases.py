"""Builds knowledge bases as their collection holds them."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status, build_collection_name
from kb_shared.text import text_normalization

CREATED_AT = datetime(2026, 1, 1, tzinfo=UTC)


def build_knowledge_base(*, kb_id: str = "kb", **fields: Any) -> KnowledgeBase:
    """Build an active KB with these fields, and usual values of the others."""
    kb = KnowledgeBase(
        kb_id=kb_id,
        organization_id="acme",
        name="KB",
        description="",
        tag_ids=(),
        tags_version=1,
        chunker_type="recursive",
        chunk_size=200,
        chunk_overlap=20,
        embedding_model="hash-16",
        embedding_dimensions=16,
        max_chunks_per_document=2000,
        status=Status.ACTIVE,
        status_reason=None,
        vector_collection=build_collection_name(kb_id),
        created_at=CREATED_AT,
        updated_at=CREATED_AT,
        created_by="test",
        updated_by="test",
        text_normalization=text_normalization.CURRENT,
    )
    return replace(kb, **fields)
