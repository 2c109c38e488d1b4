"""Responses about entries."""

from kb_contracts.api.knowledge_entries import EmbeddingErrorView, EntryChunkView, EntrySummary, EntryView
from kb_shared.mongo.knowledge_entries import EmbeddingError, KnowledgeEntry, ListedEntry
from kb_shared.mongo.vectors import ListedChunk

_SAME_IN_VIEW = tuple(EntryView.model_fields.keys() - {"embedding_error", "tags", "cites_30d"})
_SAME_IN_SUMMARY = tuple(EntrySummary.model_fields.keys() - {"embedding_error", "tags", "cites_30d"})


def entry_view(entry: KnowledgeEntry, *, cites_30d: int) -> EntryView:
    return EntryView(
        **{name: getattr(entry, name) for name in _SAME_IN_VIEW},
        tags=list(entry.tags),
        embedding_error=_error_view(entry.embedding_error),
        cites_30d=cites_30d,
    )


def entry_summary(entry: ListedEntry, *, cites_30d: int) -> EntrySummary:
    return EntrySummary(
        **{name: getattr(entry, name) for name in _SAME_IN_SUMMARY},
        tags=list(entry.tags),
        embedding_error=_error_view(entry.embedding_error),
        cites_30d=cites_30d,
    )


def chunk_view(chunk: ListedChunk, *, embedding_provider: str) -> EntryChunkView:
    return EntryChunkView(
        chunk_id=chunk.chunk_id,
        chunk_index=chunk.chunk_index,
        text=chunk.text,
        character_count=len(chunk.text),
        start=chunk.start,
        end=chunk.end,
        embedding_provider=embedding_provider,
        indexed_at=chunk.indexed_at,
    )


def _error_view(error: EmbeddingError | None) -> EmbeddingErrorView | None:
    if error is None:
        return None
    return EmbeddingErrorView(type=error.type, message=error.message, next_attempt_at=error.next_attempt_at)
