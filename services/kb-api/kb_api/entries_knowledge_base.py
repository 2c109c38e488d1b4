"""The KB of an organization's entries, which the service `knowledge` stores with the first entry."""

from collections.abc import Collection

from kb_contracts.knowledge.entry_fields import FILTERABLE_ENTRY_FIELDS
from kb_shared.errors import RequestError
from kb_shared.mongo.knowledge_bases import KnowledgeBase, KnowledgeBaseKind


def require_not_of_entries(kb: KnowledgeBase) -> None:
    """Raise RequestError 409 `knowledge-kb-fixed` if a KB contains the entries of its organization."""
    if kb.kind is KnowledgeBaseKind.KNOWLEDGE:
        raise _fixed(
            "it can't be deleted, and its tags can't change. Delete entries with DELETE /knowledge-entries/{entry_id}."
        )


def require_filters_of_entries(kb: KnowledgeBase, filterable_metadata: Collection[str]) -> None:
    """Raise RequestError 409 `knowledge-kb-fixed` if searches for entries could not filter any more.

    Other keys may be added.
    """
    missing = [name for name in FILTERABLE_ENTRY_FIELDS if name not in filterable_metadata]
    if kb.kind is KnowledgeBaseKind.KNOWLEDGE and missing:
        raise _fixed(
            f"searches filter entries by {', '.join(missing)}. Send `filterable_metadata` with these keys; others may "
            "be added."
        )


def _fixed(consequence: str) -> RequestError:
    return RequestError(
        409,
        "knowledge-kb-fixed",
        f"This knowledge base contains the entries of the organization: {consequence}",
    )
