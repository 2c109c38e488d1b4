"""What an upstream does to documents, in texts of which each paragraph becomes one chunk."""

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from kb_contracts.documents import DocumentDeleted, DocumentEvent, MetadataChanged, OcrCompleted, TagsChanged
from kb_contracts.metadata import MetadataValue

UPLOADED = datetime(2026, 1, 31, tzinfo=UTC)
# Common words, a token each: a paragraph has more than half a chunk of them, and less than a whole one.
_WORDS = (
    *("river", "mountain", "garden", "window", "letter", "winter", "music", "bridge", "forest", "market", "doctor"),
    *("engine", "silver", "shadow", "island", "station", "village", "orange", "captain", "history", "kitchen"),
    *("weather", "journey", "machine", "teacher", "morning", "picture", "company"),
)
_WORDS_A_PARAGRAPH = 30


def paragraph(name: str) -> str:
    """A paragraph that no other name gives, always the same for this one."""
    dice = random.Random(name)
    return f"{name}: {' '.join(dice.choices(_WORDS, k=_WORDS_A_PARAGRAPH))}."


class Upstream:
    """Makes the events of one organization's documents."""

    def __init__(self, organization_id: str) -> None:
        self._organization_id = organization_id

    def ocr(
        self,
        document_id: str,
        paragraphs: Sequence[str],
        *,
        tags: Sequence[str],
        revision: int = 1,
        metadata: dict[str, MetadataValue] | None = None,
    ) -> OcrCompleted:
        return OcrCompleted(
            organization_id=self._organization_id,
            document_id=document_id,
            revision=revision,
            document_name=f"{document_id} in revision {revision}",
            tag_ids=list(tags),
            upload_date=UPLOADED,
            text="\n\n".join(paragraphs),
            metadata=metadata,
        )

    def tagged(self, document_id: str, *tags: str, revision: int) -> TagsChanged:
        return TagsChanged(
            organization_id=self._organization_id, document_id=document_id, revision=revision, tag_ids=list(tags)
        )

    def described(self, document_id: str, metadata: dict[str, MetadataValue], *, revision: int) -> MetadataChanged:
        return MetadataChanged(
            organization_id=self._organization_id, document_id=document_id, revision=revision, metadata=metadata
        )

    def deleted(self, document_id: str, *, revision: int) -> DocumentDeleted:
        return DocumentDeleted(organization_id=self._organization_id, document_id=document_id, revision=revision)


PARTS: Final = (("reread", "deleted", "new"), ("moved", "described", "untagged", "in-both", "unread"))
"""Parts of `events_of_every_change`. In each of them documents come, change their text or tags, and leave."""


def select_part(number: str, part: int, events: Iterable[DocumentEvent]) -> list[DocumentEvent]:
    """Select the events of documents of one of the `PARTS`."""
    documents = {f"{number}-{name}" for name in PARTS[part % len(PARTS)]}
    return [event for event in events if event.document_id in documents]


def events_of_every_change(upstream: Upstream, number: str) -> tuple[list[DocumentEvent], list[DocumentEvent]]:
    """Documents as they are before, and what then happens to each in one way: together, all ways there are."""

    def paragraphs(what: str, *names: int) -> list[str]:
        return [paragraph(f"{number} {what} {name}") for name in names]

    before: list[DocumentEvent] = [
        upstream.ocr(f"{number}-reread", paragraphs("reread", 1, 2, 3, 4), tags=["a"]),
        upstream.ocr(f"{number}-moved", paragraphs("moved", 1, 2), tags=["a"]),
        upstream.ocr(f"{number}-deleted", paragraphs("deleted", 1, 2, 3), tags=["a", "b"]),
        upstream.ocr(f"{number}-described", paragraphs("described", 1, 2), tags=["b"], metadata={"stage": 1}),
        upstream.ocr(f"{number}-untagged", paragraphs("untagged", 1, 2), tags=["b"]),
    ]
    after: list[DocumentEvent] = [
        # The same paragraph twice: two chunks of one text.
        upstream.ocr(f"{number}-new", paragraphs("new", 1, 2, 3, 2), tags=["a"]),
        upstream.ocr(f"{number}-in-both", paragraphs("in both", 1, 2, 3), tags=["a", "b"]),
        upstream.ocr(f"{number}-reread", paragraphs("reread", 0, 2, 3, 5), tags=["a"], revision=2),
        upstream.tagged(f"{number}-moved", "b", revision=2),
        upstream.deleted(f"{number}-deleted", revision=2),
        upstream.described(f"{number}-described", {"stage": 2, "by": number}, revision=2),
        upstream.tagged(f"{number}-untagged", revision=2),
        upstream.tagged(f"{number}-unread", "a", revision=1),
    ]
    return before, after
