"""What is answered about an event that comes too late is so when all events have been applied."""

from datetime import UTC, datetime
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_api.expected_effect import ExpectedEffect, expected_effect
from kb_contracts.documents import DocumentDeleted, DocumentEvent, MetadataChanged, OcrCompleted, TagsChanged
from kb_contracts.outcomes import Facet
from kb_shared.membership.outdated import FacetVersion, versions_in
from kb_shared.membership.projection import apply, versions_of
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


def versions(each: DocumentEvent) -> dict[Facet, FacetVersion]:
    return versions_of(each, text_id=each.text if isinstance(each, OcrCompleted) else None)


def accepted(events: list[DocumentEvent]) -> dict[Facet, FacetVersion]:
    known: dict[Facet, FacetVersion] = {}
    for each in events:
        for facet, version in versions(each).items():
            known[facet] = max(version, known.get(facet, version))
    return known


def effect(late: DocumentEvent, projected: Document, waiting: list[DocumentEvent] | None = None) -> ExpectedEffect:
    return expected_effect(versions(late), projected=versions_in(projected), accepted=accepted(waiting or []))


@given(st.lists(EVENTS, max_size=6), st.lists(EVENTS, max_size=6), EVENTS)
def test_an_event_reported_to_change_nothing_changes_nothing(
    projected: list[DocumentEvent], waiting: list[DocumentEvent], late: DocumentEvent
) -> None:
    document = reduce(applied, projected, UNKNOWN_DOCUMENT)
    if not effect(late, document, waiting).changes:
        without = reduce(applied, waiting, document)
        assert seen(applied(without, late)) == seen(without)


@given(st.lists(EVENTS, max_size=6), st.lists(EVENTS, max_size=6), EVENTS)
def test_what_is_reported_as_outdated_is_exactly_what_does_not_stay(
    projected: list[DocumentEvent], waiting: list[DocumentEvent], late: DocumentEvent
) -> None:
    document = reduce(applied, projected, UNKNOWN_DOCUMENT)
    outdated = effect(late, document, waiting).outdated
    after = applied(reduce(applied, waiting, document), late)
    if isinstance(late, DocumentDeleted):
        assert not outdated or after.alive or after.tags is not None or after.metadata is not None
        return
    sent, stays = versions(late), versions_in(after)
    assert {each.facet for each in outdated} == {facet for facet in sent if sent[facet] != stays.get(facet)}
    for each in outdated:
        kept = stays["deletion"] if each.by == "deletion" else stays[each.facet]
        assert kept.revision == each.revision
        assert (each.by == "other_content") is (each.facet in stays and each.revision == late.revision)
        assert (each.by == "deletion") is (each.facet not in stays)


@given(st.lists(EVENTS, max_size=6), EVENTS)
def test_when_all_is_projected_the_report_is_exact(projected: list[DocumentEvent], late: DocumentEvent) -> None:
    document = reduce(applied, projected, UNKNOWN_DOCUMENT)
    if not isinstance(late, DocumentDeleted):
        assert effect(late, document).changes is (seen(applied(document, late)) != seen(document))


@given(st.lists(EVENTS, max_size=6), st.sampled_from(["text", "tags", "metadata"]), st.booleans())
def test_an_event_that_changes_something_is_never_reported_to_change_nothing(
    events: list[DocumentEvent], kind: str, is_projected: bool
) -> None:
    document = reduce(applied, events, UNKNOWN_DOCUMENT)
    for revision in range(1, 7):
        newest = event(kind, revision, "c")
        changes = seen(applied(document, newest)) != seen(document)
        reported = effect(newest, document) if is_projected else effect(newest, UNKNOWN_DOCUMENT, events)
        assert reported.changes or not changes


@pytest.mark.parametrize("kind", ["text", "text and metadata", "tags", "metadata", "deleted"])
def test_an_event_older_than_all_that_is_projected_of_it_changes_nothing(kind: str) -> None:
    """Also if that came over Kafka, so that no revision was accepted over HTTP."""
    document = applied(UNKNOWN_DOCUMENT, event("text and metadata", 3, "a"))
    assert not effect(event(kind, 2, "b"), document).changes
    assert effect(event(kind, 4, "b"), document).changes
    deleted = applied(document, event("deleted", 5, ""))
    assert not effect(event(kind, 5, "b"), deleted).changes


def test_nothing_is_claimed_about_a_text_whose_content_is_not_known() -> None:
    """Neither of the text that is sent, nor of one that a replica of an older version has accepted."""
    for sent_digest, known_digest in (("", "b"), ("a", "")):
        sent: dict[Facet, FacetVersion] = {"text": FacetVersion(3, sent_digest)}
        known: dict[Facet, FacetVersion] = {"text": FacetVersion(3, known_digest)}
        for projected, waiting in ((known, {}), ({}, known)):
            assert expected_effect(sent, projected=projected, accepted=waiting) == ExpectedEffect(True, [])


def test_the_same_content_changes_nothing_whether_it_is_projected_already_or_not() -> None:
    same = event("text", 3, "a")
    assert effect(same, UNKNOWN_DOCUMENT, [same]) == ExpectedEffect(False, [])
    assert effect(same, applied(UNKNOWN_DOCUMENT, same)) == ExpectedEffect(False, [])
