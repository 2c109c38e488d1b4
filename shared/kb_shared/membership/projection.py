"""Computes what a document is after some set of its events. Pure; the order of the events makes no difference.

Each facet keeps the content with the greatest (revision, digest); a deletion makes every facet up to its revision
absent; so the state is a function of the set of events alone.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from kb_contracts.documents import DocumentDeleted, DocumentEvent, MetadataChanged, OcrCompleted, TagsChanged
from kb_contracts.metadata import DateValue, MetadataValue
from kb_contracts.outcomes import Facet
from kb_shared.membership.outdated import FacetVersion
from kb_shared.mongo.documents import Document, MetadataFacet, TagsFacet, TextFacet


class _RevisedFacet(Protocol):
    @property
    def revision(self) -> int: ...
    @property
    def digest(self) -> str: ...


F = TypeVar("F", bound=_RevisedFacet)


def apply(
    document: Document, event: DocumentEvent, *, text_id: str | None = None, text_length: int | None = None
) -> Document:
    """Return the state of `document` with `event` added to what it was made of.

    Args:
        text_id: where the text of an `OcrCompleted` is stored; required for it.
        text_length: number of its characters, as far as it is known.
    """
    match event:
        case OcrCompleted():
            if text_id is None:
                raise ValueError("an OcrCompleted is applied after its text is stored")
            document = replace(document, text=_latest(document.text, _text(event, text_id, text_length)))
            document = replace(document, tags=_latest(document.tags, _tags(event.revision, event.tag_ids)))
            if event.metadata is not None:
                document = replace(document, metadata=_latest(document.metadata, _metadata(event)))
        case TagsChanged():
            document = replace(document, tags=_latest(document.tags, _tags(event.revision, event.tag_ids)))
        case MetadataChanged():
            document = replace(document, metadata=_latest(document.metadata, _metadata(event)))
        case DocumentDeleted():
            revisions = (
                [event.revision] if document.deleted_revision is None else [event.revision, document.deleted_revision]
            )
            document = replace(document, deleted_revision=max(revisions))
        case _:
            raise TypeError(f"{type(event).__name__} does not concern a document")
    return _without_dead_facets(document)


def versions_of(event: DocumentEvent, *, text_id: str | None) -> dict[Facet, FacetVersion]:
    """Return the version that an event gives to each facet. A text whose id is not known has no digest."""
    match event:
        case OcrCompleted():
            text = FacetVersion(event.revision) if text_id is None else _version(_text(event, text_id))
            versions: dict[Facet, FacetVersion] = {"text": text, "tags": _version(_tags(event.revision, event.tag_ids))}
            return versions if event.metadata is None else {**versions, "metadata": _version(_metadata(event))}
        case TagsChanged():
            return {"tags": _version(_tags(event.revision, event.tag_ids))}
        case MetadataChanged():
            return {"metadata": _version(_metadata(event))}
        case DocumentDeleted():
            return {"deletion": FacetVersion(event.revision)}
    raise TypeError(f"{type(event).__name__} does not concern a document")


def _version(facet: _RevisedFacet) -> FacetVersion:
    return FacetVersion(facet.revision, facet.digest)


def _latest(old: F | None, new: F) -> F:
    if old is None or (new.revision, new.digest) > (old.revision, old.digest):
        return new
    return old


def _without_dead_facets(document: Document) -> Document:
    deleted = document.deleted_revision
    if deleted is None:
        return document
    return replace(
        document,
        text=document.text if document.text and document.text.revision > deleted else None,
        tags=document.tags if document.tags and document.tags.revision > deleted else None,
        metadata=document.metadata if document.metadata and document.metadata.revision > deleted else None,
    )


def _text(event: OcrCompleted, text_id: str, length: int | None = None) -> TextFacet:
    upload_date = _to_milliseconds(event.upload_date)
    content = [text_id, event.document_name, upload_date.isoformat(), event.content_type]
    if event.source_digest is not None:
        # Without it, the digest is that of earlier versions.
        content.append(event.source_digest)
    content += event.reading_warnings or ()
    return TextFacet(
        revision=event.revision,
        digest=_digest(content),
        text_id=text_id,
        name=event.document_name,
        upload_date=upload_date,
        content_type=event.content_type,
        source_digest=event.source_digest,
        reading_warnings=event.reading_warnings or (),
        length=length,
    )


def _tags(revision: int, tag_ids: Sequence[str]) -> TagsFacet:
    unique = tuple(sorted(set(tag_ids)))
    return TagsFacet(revision, _digest(unique), unique)


def _metadata(event: OcrCompleted | MetadataChanged) -> MetadataFacet:
    values = {key: _plain(value) for key, value in sorted((event.metadata or {}).items())}
    content = [(key, type(value).__name__, str(value)) for key, value in values.items()]
    warnings = event.metadata_warnings or ()
    # Without them, the digest is that of earlier versions. No key of metadata is empty. Neither the order in which a
    # sender writes them nor our words make other content.
    content += sorted(("", each.field, "") for each in warnings)
    return MetadataFacet(event.revision, _digest(content), values, warnings)


def _plain(value: MetadataValue) -> Any:
    return _to_milliseconds(value.date) if isinstance(value, DateValue) else value


def _to_milliseconds(moment: datetime) -> datetime:
    """Cut a time to milliseconds, which is what MongoDB stores: the value read equals the value written."""
    moment = moment.astimezone(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _digest(content: Sequence[Any] | Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:32]
