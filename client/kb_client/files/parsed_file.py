"""Document that a file was read into."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kb_client.files.extraction import WebLinks
from kb_contracts.api.documents import PutDocument
from kb_contracts.documents import Page


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A document made from a file. Fields that `PUT /documents/{document_id}` has, too, have the same names."""

    document_id: str
    document_name: str
    """Title that the file gives itself, or its file name."""
    text: str
    pages: tuple[Page, ...]
    """Pages of a PDF and slides of a presentation; empty for other formats."""
    upload_date: datetime
    """Date that the file gives itself, or its modification time."""
    content_type: str
    source_digest: str
    """Digest of the bytes that were read."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """Sentences on what was left out or assumed."""
    web_links: WebLinks | None = None
    """Links of a web page, if the parser was asked for them."""

    def to_request(self, tag_ids: Collection[str], *, text_ref: str | None = None) -> PutDocument:
        """Return the body of `PUT /documents/{document_id}`.

        Args:
            tag_ids: all tags that the document has from then on.
            text_ref: reference of the text, if it is stored already because it is too large for an event.
        """
        return PutDocument.model_validate(
            {
                "document_name": self.document_name,
                "tag_ids": sorted(tag_ids),
                "upload_date": self.upload_date.isoformat(),
                "text": self.text if text_ref is None else None,
                "text_ref": text_ref,
                "metadata": dict(self.metadata),
                "pages": [page.model_dump() for page in self.pages],
                "content_type": self.content_type,
                "source_digest": self.source_digest,
                "reading_warnings": list(self.warnings),
            }
        )
