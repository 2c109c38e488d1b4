"""Refuses events whose ids their topic may not name: ids of curated knowledge are those of the service `knowledge`."""

from kb_contracts.cloudevents import Payload
from kb_contracts.documents import DocumentEvent, OcrCompleted, TagDeleted, TagsChanged, TagUpserted
from kb_contracts.errors import Rejected
from kb_contracts.reasons.shown_values import cut
from kb_contracts.reserved_ids import (
    ENTRY_PREFIX,
    RESERVED_TAG_PREFIX,
    find_reserved_tag_ids,
    is_entry_document_id,
    is_reserved_document_id,
    is_reserved_tag_id,
)


def require_ids_of_topic(event: Payload, *, is_of_knowledge: bool) -> None:
    """Check the ids of an event of `knowledge-document-events`, or of `document-events`.

    Raises:
        Rejected: `reserved-id` for an id of curated knowledge in `document-events`, `not-knowledge` for another one in
            `knowledge-document-events`.
    """
    if is_of_knowledge:
        _require_knowledge(event)
    else:
        _refuse_knowledge(event)


def _refuse_knowledge(event: Payload) -> None:
    match event:
        case DocumentEvent() if is_reserved_document_id(event.document_id):
            raise _reserved("document_id", event.document_id, prefix=ENTRY_PREFIX, owner="entries")
        case OcrCompleted() | TagsChanged() if reserved := find_reserved_tag_ids(event.tag_ids):
            raise _reserved_tag(f"tag_ids.{event.tag_ids.index(reserved[0])}", reserved[0])
        case TagUpserted() | TagDeleted() if is_reserved_tag_id(event.tag_id):
            raise _reserved_tag("tag_id", event.tag_id)


def _reserved_tag(field: str, tag_id: str) -> Rejected:
    return _reserved(field, tag_id, prefix=RESERVED_TAG_PREFIX, owner="curated knowledge")


def _reserved(field: str, given: str, *, prefix: str, owner: str) -> Rejected:
    return Rejected(
        "reserved-id",
        f'{field}: must not begin with {prefix}, as ids of {owner} do, not "{cut(given)}": choose another one',
    )


def _require_knowledge(event: Payload) -> None:
    match event:
        case DocumentEvent() if is_entry_document_id(event.document_id):
            return
        case TagUpserted() | TagDeleted() if is_reserved_tag_id(event.tag_id):
            return
    raise Rejected(
        "not-knowledge", "this topic is for documents of entries, `entry-<entry id>`; publish to document-events"
    )
