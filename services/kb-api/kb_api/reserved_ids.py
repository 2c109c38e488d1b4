"""Refuses ids of curated knowledge in requests: its documents and tags are changed by the routes of entries only."""

from collections.abc import Collection

from kb_contracts.documents import DocumentEvent, OcrCompleted, TagsChanged
from kb_contracts.reserved_ids import find_reserved_tag_ids, is_reserved_document_id
from kb_shared.errors import RequestError


def require_own_ids(event: DocumentEvent) -> None:
    """Raise RequestError 422 `reserved-id` if an event names an entry, or a reserved tag."""
    require_own_document_id(event.document_id)
    if isinstance(event, OcrCompleted | TagsChanged):
        require_own_tag_ids(event.tag_ids)


def require_own_document_id(document_id: str) -> None:
    """Raise RequestError 422 `reserved-id` if the document is an entry."""
    if is_reserved_document_id(document_id):
        raise RequestError(
            422,
            "reserved-id",
            "Ids that begin with `entry-` are those of entries. Choose another document_id, or change the entry with "
            "PATCH /knowledge-entries/{entry_id}.",
        )


def require_own_tag_ids(tag_ids: Collection[str]) -> None:
    """Raise RequestError 422 `reserved-id` if one of the tags is reserved."""
    if reserved := find_reserved_tag_ids(tag_ids):
        raise RequestError(
            422,
            "reserved-id",
            f"Tags that begin with `kb.` are reserved: {', '.join(sorted(reserved))}. Choose other tags.",
            extra={"tag_ids": sorted(reserved)},
        )
