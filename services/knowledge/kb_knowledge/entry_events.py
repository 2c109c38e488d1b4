"""The events about the document of an entry. Pure.

Each change is one event with the whole state of the entry: the indexer finds what of it is new.
"""

from kb_contracts.cloudevents import MAX_EVENT_BYTES, encode
from kb_contracts.documents import DocumentDeleted, OcrCompleted
from kb_contracts.knowledge.entities import ANY_ENTITY
from kb_contracts.knowledge.entry_fields import FILTERABLE_ENTRY_FIELDS
from kb_contracts.metadata import Metadata
from kb_contracts.reserved_ids import KNOWLEDGE_TAG
from kb_knowledge.source import SOURCE
from kb_shared.errors import RequestError
from kb_shared.mongo.knowledge_entries import EntryKey, KnowledgeEntry


def to_event(entry: KnowledgeEntry) -> OcrCompleted:
    """Return the event with the present state of an entry."""
    return OcrCompleted(
        organization_id=entry.organization_id,
        document_id=entry.key.document.document_id,
        revision=entry.revision,
        document_name=entry.title,
        tag_ids=[*entry.tags, KNOWLEDGE_TAG],
        upload_date=entry.created_at,
        text=entry.content,
        metadata=_metadata(entry),
        embedding_text=entry.embedding_text,
    )


def to_deletion(key: EntryKey, *, revision: int) -> DocumentDeleted:
    return DocumentDeleted(organization_id=key.organization_id, document_id=key.document.document_id, revision=revision)


def event_id(key: EntryKey, *, revision: int) -> str:
    """Return the id of the event of a revision, by which its rejection is recognized."""
    return f"{key.organization_id}/{key.entry_id}/{revision}"


def revision_of(event_id: str, key: EntryKey) -> int | None:
    """Return the revision of an event of an entry; None if it has an id of another form."""
    before, _, revision = event_id.rpartition("/")
    return int(revision) if before == f"{key.organization_id}/{key.entry_id}" and revision.isdecimal() else None


def require_size(event: OcrCompleted) -> None:
    """Raise RequestError 413 if an event is larger than the contract allows: control characters take six bytes each."""
    size = len(encode(event, source=SOURCE))
    if size > MAX_EVENT_BYTES:
        raise RequestError(
            413,
            "event-too-large",
            f"The entry has {size} bytes as an event, and may have {MAX_EVENT_BYTES}. Shorten its content, or remove "
            "control characters from it.",
        )


def _metadata(entry: KnowledgeEntry) -> Metadata:
    values = {name: getattr(entry, name) for name in FILTERABLE_ENTRY_FIELDS}
    # A filter can ask for a value, and not for its absence.
    values["entity_id"] = entry.entity_id or ANY_ENTITY
    return {name: value for name, value in values.items() if value is not None}
