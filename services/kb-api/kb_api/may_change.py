"""Decides whether an event can still change its document, by the known revisions. Pure."""

from collections.abc import Mapping, Sequence

from kb_api.document_revisions import Facet
from kb_contracts.documents import DocumentDeleted, DocumentEvent, MetadataChanged, OcrCompleted, TagsChanged
from kb_shared.mongo.documents import Document, MetadataFacet, TagsFacet, TextFacet


def facets_of(event: DocumentEvent) -> Sequence[Facet]:
    """Return the facets that an event sets."""
    match event:
        case OcrCompleted():
            return ("text", "tags") if event.metadata is None else ("text", "tags", "metadata")
        case TagsChanged():
            return ("tags",)
        case MetadataChanged():
            return ("metadata",)
        case DocumentDeleted():
            return ("deletion",)
    raise TypeError(f"{type(event).__name__} does not concern a document")


def may_change(event: DocumentEvent, document: Document | None, accepted: Mapping[Facet, int]) -> bool:
    """Return False if greater revisions of all facets of the event are known, or the same or a greater one deleted it.

    Between events with the same revision, the content decides.

    Args:
        event: event with its final revision.
        document: document as projected.
        accepted: greatest revisions accepted over HTTP before this event, perhaps not projected yet.
    """
    known = _known(document, accepted)
    deleted = known.pop("deletion", None)
    if deleted is not None and event.revision <= deleted:
        return False
    facets = list(known) if isinstance(event, DocumentDeleted) else facets_of(event)
    alive = {facet: revision for facet, revision in known.items() if deleted is None or revision > deleted}
    return not facets or any(facet not in alive or event.revision >= alive[facet] for facet in facets)


def _known(document: Document | None, accepted: Mapping[Facet, int]) -> dict[Facet, int]:
    known = dict(accepted)
    if document is None:
        return known
    if document.deleted_revision is not None:
        known["deletion"] = max(document.deleted_revision, known.get("deletion", document.deleted_revision))
    projected: list[tuple[Facet, TextFacet | TagsFacet | MetadataFacet | None]] = [
        ("text", document.text),
        ("tags", document.tags),
        ("metadata", document.metadata),
    ]
    for facet, content in projected:
        if content is not None:
            known[facet] = max(content.revision, known.get(facet, content.revision))
    return known
