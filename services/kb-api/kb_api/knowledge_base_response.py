"""Responses about KBs."""

from collections.abc import Collection

from kb_api.text_language import analyzer_warning
from kb_contracts.api.knowledge_bases import KnowledgeBaseView, RateLimitsView
from kb_shared.mongo.knowledge_bases import KnowledgeBase


def knowledge_base_view(
    kb: KnowledgeBase, *, documents: int, chunks: int, dead_tags: Collection[str] = ()
) -> KnowledgeBaseView:
    return KnowledgeBaseView(
        kb_id=kb.kb_id,
        kind=kb.kind.value,
        name=kb.name,
        description=kb.description,
        tag_ids=list(kb.tag_ids),
        dead_tag_ids=[tag_id for tag_id in kb.tag_ids if tag_id in dead_tags],
        chunker_type=kb.chunker_type,
        chunk_size=kb.chunk_size,
        chunk_overlap=kb.chunk_overlap,
        embedding_model=kb.embedding_model,
        embedding_dimensions=kb.embedding_dimensions,
        coalesce_neighbors=kb.coalesce_neighbors,
        min_score=kb.min_score,
        refuse_sensitive=kb.refuse_sensitive,
        text_analyzer=kb.text_analyzer,
        text_normalization=kb.text_normalization,
        filterable_metadata=list(kb.filterable_metadata),
        max_chunks_per_document=kb.max_chunks_per_document,
        rate_limits=RateLimitsView.model_validate(dict(kb.rate_limits)),
        status=kb.status,
        status_reason=kb.status_reason,
        paused_at=kb.paused_at,
        index_rebuild=kb.index_rebuild,
        warnings=_warnings(kb),
        document_count=documents,
        chunk_count=chunks,
        created_at=kb.created_at,
        updated_at=kb.updated_at,
        created_by=kb.created_by,
        updated_by=kb.updated_by,
        last_searched_at=kb.last_searched_at,
    )


def _warnings(kb: KnowledgeBase) -> list[str]:
    """Return the warnings about its settings, and one if its text analyzer does not fit its documents."""
    of_analyzer = analyzer_warning(kb.text_analyzer, kb.text_language)
    return [*kb.warnings, *([of_analyzer] if of_analyzer else [])]
