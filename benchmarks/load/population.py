"""Documents that the load has published, and the next event about one of them. Pure: it sends nothing."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Final

from benchmarks.corpus.documents import RealDocument
from benchmarks.load.arrivals import ZipfChoice
from kb_contracts.documents import DocumentDeleted, DocumentEvent, OcrCompleted, TagsChanged

CREATE: Final = "create"
REREAD: Final = "re-ocr"
RETAG: Final = "retag"
DELETE: Final = "delete"
EVENT_KINDS: Final = (CREATE, REREAD, RETAG, DELETE)
_IN_TWO_KNOWLEDGE_BASES: Final = 0.5
"""Share of new documents with the tag of a second KB: the share that changes of tags lead to."""
_UPLOADED: Final = datetime(2026, 1, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LoadPartition:
    """A KB of an organization, and the tag of its documents."""

    organization_id: str
    kb_id: str
    tag_id: str


@dataclass(slots=True)
class LoadDocument:
    document_id: str
    home: LoadPartition
    source: RealDocument
    revision: int
    text_revision: int
    tag_ids: tuple[str, ...]
    is_deleted: bool = False

    @property
    def marker(self) -> str:
        """Return a word that only the newest text of this document contains."""
        return f"{self.document_id}r{self.text_revision}"


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    kind: str
    event: DocumentEvent
    document: LoadDocument
    marker: str | None
    """Word by which a search finds the new text; None if the event has no text."""


@dataclass(slots=True)
class DocumentPopulation:
    """Documents of all KBs.

    Attributes:
        run_id: begins the ids of documents, so that a second run does not meet those of the first.
        skew: of the choice of a KB and of a document. Older documents are chosen more often.
        mix: weights of `EVENT_KINDS`.
        steady_at: number of documents above which one is deleted instead of created, and below which one is created
            instead of deleted. None: `mix` alone decides.
    """

    partitions: Sequence[LoadPartition]
    sources: Sequence[RealDocument]
    mix: Mapping[str, float]
    skew: float
    dice: random.Random
    run_id: str = "load"
    steady_at: int | None = None
    documents: dict[str, list[LoadDocument]] = field(init=False)
    """Documents that are not deleted, by KB."""
    _numbers: Iterator[int] = field(default_factory=count)
    _of_partitions: ZipfChoice = field(init=False)
    _of_documents: ZipfChoice = field(init=False)

    def __post_init__(self) -> None:
        self.documents = {partition.kb_id: [] for partition in self.partitions}
        self._of_partitions = ZipfChoice(skew=self.skew)
        self._of_documents = ZipfChoice(skew=self.skew)

    def choose_partition(self, dice: random.Random | None = None) -> LoadPartition:
        """Choose a KB with the given dice, so that searches don't change which events come."""
        return self.partitions[self._of_partitions.choose(len(self.partitions), dice or self.dice)]

    def plan_event(self) -> PlannedEvent:
        """Choose a KB and a change, and return the event of it. A KB without documents gets a new one."""
        partition = self.choose_partition()
        kind = self._choose_kind()
        existing = self.documents[partition.kb_id]
        if kind == CREATE or not existing:
            return self.plan_creation(partition)
        document = existing[self._of_documents.choose(len(existing), self.dice)]
        document.revision += 1
        match kind:
            case "re-ocr":
                document.text_revision = document.revision
                return PlannedEvent(kind, _text_of(document), document, document.marker)
            case "retag":
                document.tag_ids = self._other_tags(document)
                return PlannedEvent(kind, _tags_of(document), document, None)
            case _:
                existing.remove(document)
                document.is_deleted = True
                return PlannedEvent(kind, _end_of(document), document, None)

    def plan_creation(self, partition: LoadPartition) -> PlannedEvent:
        number = next(self._numbers)
        source = self.sources[number % len(self.sources)]
        document = LoadDocument(f"{self.run_id}d{number}", partition, source, 1, 1, (partition.tag_id,))
        if self.dice.random() < _IN_TWO_KNOWLEDGE_BASES:
            document.tag_ids = self._other_tags(document)
        self.documents[partition.kb_id].append(document)
        return PlannedEvent(CREATE, _text_of(document), document, document.marker)

    def current_texts(self, partition: LoadPartition) -> list[str]:
        return [document.source.text for document in self.documents[partition.kb_id]]

    def expected_members(self, partition: LoadPartition) -> dict[str, LoadDocument]:
        """Return the documents that have the tag of a KB, by id."""
        return {
            document.document_id: document
            for documents in self.documents.values()
            for document in documents
            if document.home.organization_id == partition.organization_id and partition.tag_id in document.tag_ids
        }

    def _choose_kind(self) -> str:
        kind = self.dice.choices(EVENT_KINDS, [self.mix.get(each, 0.0) for each in EVENT_KINDS])[0]
        if self.steady_at is not None and kind in (CREATE, DELETE):
            return DELETE if sum(map(len, self.documents.values())) >= self.steady_at else CREATE
        return kind

    def _other_tags(self, document: LoadDocument) -> tuple[str, ...]:
        """Return its own tag alone, or with that of another KB of its organization."""
        own = document.home.tag_id
        if len(document.tag_ids) > 1:
            return (own,)
        others = [
            each.tag_id
            for each in self.partitions
            if each.organization_id == document.home.organization_id and each.tag_id != own
        ]
        return (own, self.dice.choice(others)) if others else (own,)


def _text_of(document: LoadDocument) -> OcrCompleted:
    return OcrCompleted(
        organization_id=document.home.organization_id,
        document_id=document.document_id,
        revision=document.revision,
        document_name=document.source.name[:1_000],
        tag_ids=list(document.tag_ids),
        upload_date=_UPLOADED,
        text=f"{document.marker}\n\n{document.source.text}",
        metadata={"language": document.source.language, "section": document.source.tag_ids[-1]},
    )


def _tags_of(document: LoadDocument) -> TagsChanged:
    return TagsChanged(
        organization_id=document.home.organization_id,
        document_id=document.document_id,
        revision=document.revision,
        tag_ids=list(document.tag_ids),
    )


def _end_of(document: LoadDocument) -> DocumentDeleted:
    return DocumentDeleted(
        organization_id=document.home.organization_id,
        document_id=document.document_id,
        revision=document.revision,
    )
