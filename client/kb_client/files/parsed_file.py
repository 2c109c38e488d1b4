"""Document that a file was read into."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

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
