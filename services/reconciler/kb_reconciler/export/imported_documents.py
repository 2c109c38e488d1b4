"""Decides what an imported document becomes in its new organization. Pure."""

from collections.abc import Collection
from dataclasses import dataclass

from kb_contracts.documents import MetadataChanged, OcrCompleted, TagsChanged
from kb_reconciler.export.id_mapping import IdMapping
from kb_reconciler.export.kbx import DocumentLine, TextLine
from kb_shared.membership.projection import apply
from kb_shared.mongo.document_texts import NewText
from kb_shared.mongo.documents import Document
from kb_shared.mongo.keys import DocumentKey

_GREATEST_REVISION = 2**63 - 1


class DocumentConflict(Exception):
    """Document of the organization that the import would change. `str()` names it and says why."""


@dataclass(frozen=True, slots=True)
class ImportedDocument:
    """Document of the file with its ids in the organization."""

    organization_id: str
    document_id: str
    line: DocumentLine
    tag_ids: tuple[str, ...]
    text: NewText

    @classmethod
    def from_lines(
        cls, line: DocumentLine, text: TextLine, *, organization_id: str, mapping: IdMapping
    ) -> "ImportedDocument":
        document_id = mapping.map_document(line.document_id)
        pages = tuple((page.page, page.start, page.end) for page in text.pages)
        key = DocumentKey(organization_id, document_id)
        new_text = NewText(key, text.text, pages, embedding_text=text.embedding_text)
        return cls(organization_id, document_id, line, tuple(mapping.map_tags(line.tag_ids)), new_text)

    def applied_to(self, before: Document | None, *, kb_tags: Collection[str]) -> Document | None:
        """Return the document after the import; None if it exists already and is not changed.

        Raises:
            DocumentConflict: it exists with another text, or would not be in the KB.
        """
        if before is not None and before.text is not None:
            if before.text.text_id != self.text.identity:
                raise DocumentConflict(f"document {self.document_id!r} exists with another text")
            self._require_tag(before, kb_tags)
            return None
        after = self._project(before or Document(self.organization_id, self.document_id))
        self._require_tag(after, kb_tags)
        return after

    def _project(self, before: Document) -> Document:
        deleted = before.deleted_revision
        if deleted == _GREATEST_REVISION:
            raise DocumentConflict(f"document {self.document_id!r} was deleted for good: no revision is greater")

        def revision(of_file: int) -> int:
            # Greater than that of a deletion, which would remove it again.
            return of_file if deleted is None else max(of_file, deleted + 1)

        line = self.line
        who = {"organization_id": self.organization_id, "document_id": self.document_id}
        text = OcrCompleted(
            **who,
            revision=revision(line.text_revision),
            document_name=line.document_name,
            tag_ids=list(self.tag_ids),
            upload_date=line.upload_date,
            # The event of an upstream with a stored text: the projection is the same.
            text_ref=self.text.identity,
            content_type=line.content_type,
            source_digest=line.source_digest,
            reading_warnings=line.reading_warnings,
        )
        after = apply(before, text, text_id=self.text.identity)
        after = apply(after, TagsChanged(**who, revision=revision(line.tags_revision), tag_ids=list(self.tag_ids)))
        if line.metadata is not None and line.metadata_revision is not None:
            metadata = MetadataChanged(
                **who,
                revision=revision(line.metadata_revision),
                metadata=line.metadata,
                metadata_warnings=line.metadata_warnings,
            )
            after = apply(after, metadata)
        return after

    def _require_tag(self, document: Document, kb_tags: Collection[str]) -> None:
        if not {*document.tag_ids} & {*kb_tags}:
            raise DocumentConflict(f"document {self.document_id!r} has none of the tags of the knowledge base")
