"""What is answered about an event that comes too late is so when all events have been applied."""

from datetime import UTC, datetime
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_api.document_revisions import Facet
from kb_api.may_change import facets_of, may_change
from kb_contracts.documents import DocumentDeleted, DocumentEvent, MetadataChanged, OcrCompleted, TagsChanged
from kb_shared.membership.projection import apply
from kb_shared.mongo.documents import Document

NOW = datetime(2026, 1, 31, tzinfo=UTC)
UNKNOWN_DOCUMENT = Document("acme", "d")


def event(kind: str, revision: int, content: str) -> DocumentEvent:
    names: dict[str, Any] = {"organization_id": "acme", "document_id": "d", "revision": revision}
    match kind:
        case "text" | "text and metadata":
            metadata: dict[str, Any] | None = {"k": content} if kind != "text" else None
            fields: dict[str, Any] = {
                "document_name": content,
                "tag_ids": [content],
                "upload_date": NOW,
                "text": content,
            }
            return OcrCompleted(**names, **fields, metadata=metadata)
        case "tags":
            return TagsChanged(**names, tag_ids=[content])
        case "metadata":
            return MetadataChanged(**names, metadata={"k": content})
    return DocumentDeleted(**names)


EVENTS = st.builds(
    event,
    st.sampled_from(["text", "text and metadata", "tags", "metadata", "deleted"]),
    st.integers(1, 5),
    st.sampled_from("ab"),
)


def applied(document: Document, each: DocumentEvent) -> Document:
    return apply(document, each, text_id=each.text if isinstance(each, OcrCompleted) else None)


def seen(document: Document) -> tuple[object, ...]:
    return document.text, document.tags, document.metadata


def accepted(events: list[DocumentEvent]) -> dict[Facet, int]:
    known: dict[Facet, int] = {}
    for each in events:
        for facet in facets_of(each):
            known[facet] = max(each.revision, known.get(facet, each.revision))
    return known


@given(st.lists(EVENTS, max_size=6), st.lists(EVENTS, max_size=6), EVENTS)
def test_an_event_reported_to_change_nothing_changes_nothing(
    projected: list[DocumentEvent], waiting: list[DocumentEvent], late: DocumentEvent
) -> None:
    document = reduce(applied, projected, UNKNOWN_DOCUMENT)
    if not may_change(late, document if projected else None, accepted(waiting)):
        without = reduce(applied, waiting, document)
        assert seen(applied(without, late)) == seen(without)


@given(st.lists(EVENTS, max_size=6), st.sampled_from(["text", "tags", "metadata"]), st.booleans())
def test_an_event_that_changes_something_is_never_reported_to_change_nothing(
    events: list[DocumentEvent], kind: str, is_projected: bool
) -> None:
    document = reduce(applied, events, UNKNOWN_DOCUMENT)
    for revision in range(1, 7):
        newest = event(kind, revision, "c")
        changes = seen(applied(document, newest)) != seen(document)
        known = {} if is_projected else accepted(events)
        assert may_change(newest, document if is_projected else None, known) or not changes


@pytest.mark.parametrize("kind", ["text", "text and metadata", "tags", "metadata", "deleted"])
def test_an_event_older_than_all_that_is_projected_of_it_changes_nothing(kind: str) -> None:
    """Also if that came over Kafka, so that no revision was accepted over HTTP."""
    document = applied(UNKNOWN_DOCUMENT, event("text and metadata", 3, "a"))
    assert not may_change(event(kind, 2, "b"), document, {})
    assert may_change(event(kind, 4, "b"), document, {})
    deleted = applied(document, event("deleted", 5, ""))
    assert not may_change(event(kind, 5, "b"), deleted, {})
