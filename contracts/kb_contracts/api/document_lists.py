"""Lists of the documents of an organization, whatever knowledge bases they are in."""

from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import BaseModel, Field

from kb_contracts.api.memberships import HAS_WARNINGS, DocumentError, DocumentStatus
from kb_contracts.api.model import NextCursor, example

DocumentStage: TypeAlias = Literal["available", "waiting_for_text", "deleted"]
DocumentListFilter: TypeAlias = DocumentStage | Literal["indexed", "empty", "pending", "running", "failed", "paused"]
DocumentSort: TypeAlias = Literal[
    "document_id", "-document_id", "document_name", "-document_name", "upload_date", "-upload_date"
]


class PlacementView(BaseModel):
    """A knowledge base that a document is in, or is about to enter or to leave."""

    kb_id: str
    status: DocumentStatus = Field(description="State of the document in the knowledge base.")
    error: DocumentError | None = Field(default=None, description="Error of the last attempt; null if there is none.")


class DocumentSummary(BaseModel):
    document_id: str
    document_name: str | None = Field(description="Name of the document; null until its text has come.")
    state: DocumentStage = Field(
        description="`available`: it has a text; `waiting_for_text`: tags or metadata have come, the text has not; "
        "`deleted`: it was deleted, and only its revision is still known."
    )
    tag_ids: list[str]
    upload_date: datetime | None
    content_type: str | None = Field(description="Media type of the original file, as given.")
    source_digest: str | None = Field(
        description="Digest of the original file, as given with its text; null if the last text came without one."
    )
    text_revision: int | None = Field(description="Revision of the text; null if there is none.")
    text_bytes: int | None = Field(
        default=None, description="Size of the text in UTF-8; null if there is none, or its size is not known."
    )
    changed_at: datetime | None = Field(description="Time of the last change of the document.")
    knowledge_bases: list[PlacementView] = Field(
        description="Knowledge bases that the document is indexed in or has open work for."
    )
    has_warnings: bool = Field(default=False, description=HAS_WARNINGS)


class DocumentPage(BaseModel):
    model_config = example(
        {
            "documents": [
                {
                    "document_id": "handbook",
                    "document_name": "handbook.pdf",
                    "state": "available",
                    "tag_ids": ["hr"],
                    "upload_date": "2026-01-31T12:00:00Z",
                    "content_type": "application/pdf",
                    "source_digest": "5ff2eaebd7ff816a",
                    "text_revision": 1,
                    "text_bytes": 40312,
                    "changed_at": "2026-01-31T12:00:00Z",
                    "knowledge_bases": [{"kb_id": "65f1c2a3b4d5e6f708192a3b", "status": "indexed", "error": None}],
                    "has_warnings": False,
                }
            ],
            "total_count": 1,
            "next_cursor": None,
        }
    )

    documents: list[DocumentSummary]
    total_count: int = Field(description="Number of items on all pages.")
    next_cursor: NextCursor
