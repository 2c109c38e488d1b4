"""Chooses the next change of a document: a new one, a new text, other tags, other metadata, or a deletion."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kb_contracts.documents import DocumentDeleted, DocumentEvent, MetadataChanged, OcrCompleted, TagsChanged
from tests.chaos.workload import Upstream, paragraph

TAGS: Final = ("a", "b")
MIN_DOCUMENTS: Final = 5
"""Before other changes begin."""
_WEIGHTS: Final = {"new": 4, "text": 3, "tags": 2, "metadata": 2, "deletion": 1}


@dataclass(slots=True)
class ChangingDocument:
    document_id: str
    revision: int
    text: str
    """Its newest text: one paragraph, which becomes one chunk."""
    is_found: bool = False
    """True if a search has found the newest text."""


@dataclass(slots=True)
class DocumentChanges:
    upstream: Upstream
    dice: random.Random
    documents: dict[str, ChangingDocument] = field(default_factory=dict)
    """All that were not deleted."""
    _made: int = 0

    def next_event(self) -> DocumentEvent:
        """Return the event of the next change. Only documents that were found since their last text are changed."""
        settled = self.settled()
        if len(settled) < MIN_DOCUMENTS:
            return self._create()
        [change] = self.dice.choices(list(_WEIGHTS), weights=list(_WEIGHTS.values()))
        if change == "new":
            return self._create()
        document = self.dice.choice(settled)
        document.revision += 1
        name, revision = document.document_id, document.revision
        match change:
            case "text":
                document.text, document.is_found = paragraph(f"{name} in revision {revision}"), False
                return self.upstream.ocr(name, [document.text], tags=TAGS, revision=revision)
            case "tags":
                return self.upstream.tagged(name, *TAGS[: self.dice.randint(1, 2)], revision=revision)
            case "metadata":
                return self.upstream.described(name, {"stage": revision}, revision=revision)
        del self.documents[name]
        return self.upstream.deleted(name, revision=revision)

    def settled(self) -> list[ChangingDocument]:
        """Return the documents whose newest text was found."""
        return [each for each in self.documents.values() if each.is_found]

    def _create(self) -> OcrCompleted:
        self._made += 1
        name = f"changing-{self._made:05}"
        document = ChangingDocument(name, 1, paragraph(name))
        self.documents[name] = document
        return self.upstream.ocr(name, [document.text], tags=TAGS)


@dataclass(frozen=True, slots=True)
class DocumentRequest:
    """Request to kb-api that has the effect of an event."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None


def to_request(event: DocumentEvent) -> DocumentRequest:
    path = f"/documents/{event.document_id}"
    match event:
        case OcrCompleted():
            fields = {"document_name", "tag_ids", "upload_date", "text", "revision"}
            return DocumentRequest("PUT", path, event.model_dump(mode="json", include=fields))
        case TagsChanged():
            return DocumentRequest("PATCH", f"{path}/tags", {"tag_ids": event.tag_ids, "revision": event.revision})
        case MetadataChanged():
            body = {"metadata": event.metadata, "revision": event.revision}
            return DocumentRequest("PATCH", f"{path}/metadata", body)
        case DocumentDeleted():
            return DocumentRequest("DELETE", f"{path}?revision={event.revision}")
    raise TypeError(f"{type(event).__name__} has no request")
