"""The KB of an organization's entries, which the service `knowledge` stores with the first entry."""

from kb_shared.errors import RequestError
from kb_shared.mongo.knowledge_bases import KnowledgeBase, KnowledgeBaseKind


def require_not_of_entries(kb: KnowledgeBase) -> None:
    """Raise RequestError 409 `knowledge-kb-fixed` if a KB contains the entries of its organization."""
    if kb.kind is KnowledgeBaseKind.KNOWLEDGE:
        raise RequestError(
            409,
            "knowledge-kb-fixed",
            "This knowledge base contains the entries of the organization: it can't be deleted, and its tags can't "
            "change. Delete entries with DELETE /knowledge-entries/{entry_id}.",
        )
