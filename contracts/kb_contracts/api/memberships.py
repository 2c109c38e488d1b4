"""A document in a knowledge base: its state, the explanation of it, and its chunks."""

from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, Field

from kb_contracts.api.model import NextCursor, example
from kb_contracts.commands import Reason
from kb_contracts.metadata import MetadataWarning

OpenJobStatus = Literal["waiting_for_text", "pending", "running", "failed", "paused"]
IndexStatus = Literal["indexed", "empty"]
DocumentStatus = Literal["not_in_knowledge_base"] | IndexStatus | OpenJobStatus
StatusFilter = Literal["all"] | IndexStatus | OpenJobStatus
ListedDocumentSort = Literal[
    "document_id",
    "-document_id",
    "document_name",
    "-document_name",
    "chunk_count",
    "-chunk_count",
    "indexed_at",
    "-indexed_at",
]

LEFT_OUT: Final = (
    "Parts of the metadata that were left out because they can't be stored; if they are too many, the last one counts "
    "the others. In the field `text`: what was left out or assumed when the text was read from its file."
)
HAS_WARNINGS: Final = "Whether parts of the document were left out: `warnings` of the document says which."


class DocumentError(BaseModel):
    type: str = Field(description="Kind of error, as a stable slug.")
    message: str = Field(description="Explanation of the error for people.")


class EmbeddingProgress(BaseModel):
    """Progress of a text that is being indexed."""

    chunk_count: int = Field(description="Number of chunks of the text.")
    embedded_count: int = Field(description="Number of these chunks that have their vectors.")


EMBEDDING: Final = (
    "Progress of the text that is being indexed; null until it is cut into chunks, and for a document whose vectors "
    "come in one answer of the embedding model."
)


class ListedDocumentView(BaseModel):
    document_id: str
    document_name: str | None = Field(description="Name of the document; null until its text has come.")
    status: IndexStatus | OpenJobStatus = Field(description="State of the document in the knowledge base.")
    chunk_count: int = Field(
        description="Number of chunks that are searchable now, also while a newer text is being indexed."
    )
    embedding: EmbeddingProgress | None = Field(default=None, description=EMBEDDING)
    indexed_at: datetime | None = Field(
        description="Time at which the document was last indexed; null if it is not indexed."
    )
    attempts: int = Field(description="Number of attempts of the open job.")
    error: DocumentError | None = Field(description="Error of the last attempt; null if there is none.")
    next_attempt_at: datetime | None = Field(
        description="Time of the next attempt; null if it can begin now or none is planned."
    )
    has_warnings: bool = Field(default=False, description=HAS_WARNINGS)


class DocumentList(BaseModel):
    model_config = example(
        {
            "documents": [
                {
                    "document_id": "handbook",
                    "document_name": "handbook.pdf",
                    "status": "indexed",
                    "chunk_count": 31,
                    "embedding": None,
                    "indexed_at": "2026-01-31T12:00:05Z",
                    "attempts": 0,
                    "error": None,
                    "next_attempt_at": None,
                    "has_warnings": False,
                }
            ],
            "total_count": 1,
            "next_cursor": None,
        }
    )

    documents: list[ListedDocumentView]
    total_count: int = Field(description="Number of items on all pages.")
    next_cursor: NextCursor


class EventView(BaseModel):
    event_id: str = Field(description="Id of the CloudEvent.")
    type: str = Field(description="Type of the event, such as `document.tags_changed.v1`.")
    revision: int = Field(description="Revision that the event sets.")
    trace_id: str | None = Field(description="Id of the W3C trace of the event; null if it has none.")
    applied_at: datetime = Field(description="Time at which the event changed the document.")


class DocumentState(BaseModel):
    """State of the document as the upstream described it."""

    document_name: str | None = Field(description="Name of the document; null until its text has come.")
    alive: bool = Field(description="Whether the document has a text and is not deleted.")
    tag_ids: list[str]
    text_revision: int | None = Field(description="Revision of the text; null if there is none.")
    tags_revision: int | None = Field(description="Revision of the tags; null if there is none.")
    metadata_revision: int | None = Field(description="Revision of the metadata; null if there is none.")
    deleted_revision: int | None = Field(
        description="Revision of the deletion; null if the document was never deleted."
    )
    warnings: list[MetadataWarning] = Field(default=[], description=LEFT_OUT)


class IndexedDocumentState(BaseModel):
    version: int = Field(description="Number of the last replacement of the chunks of the document, from 1.")
    chunk_count: int = Field(description="Number of searchable chunks.")
    text_revision: int = Field(description="Revision of the indexed text.")
    indexed_at: datetime | None


class JobState(BaseModel):
    state: OpenJobStatus
    reason: Reason = Field(description="Reason of the job.")
    forced: bool = Field(description="Whether the document is indexed even if nothing has changed.")
    embedding: EmbeddingProgress | None = Field(default=None, description=EMBEDDING)
    attempts: int = Field(description="Number of attempts so far.")
    error: DocumentError | None = Field(description="Error of the last attempt; null if there is none.")
    requested_at: datetime = Field(description="Time of the last request for the document.")
    next_attempt_at: datetime | None = Field(
        description="Time of the next attempt; null if it can begin now or none is planned."
    )
    trace_id: str | None = Field(description="Id of the W3C trace of the request; null if it has none.")


class ExplanationView(BaseModel):
    model_config = example(
        {
            "kb_id": "65f1c2a3b4d5e6f708192a3b",
            "document_id": "handbook",
            "status": "indexed",
            "reason": "The document is searchable.",
            "knowledge_base_name": "Handbook",
            "knowledge_base_tag_ids": ["hr"],
            "knowledge_base_paused_at": None,
            "shared_tag_ids": ["hr"],
            "document": {
                "document_name": "handbook.pdf",
                "alive": True,
                "tag_ids": ["hr"],
                "text_revision": 1,
                "tags_revision": 1,
                "metadata_revision": None,
                "deleted_revision": None,
                "warnings": [],
            },
            "events": [
                {
                    "event_id": "0b9d3c5e-6f1a-4a53-9a44-5d2e7f8a9b0c",
                    "type": "document.ocr_completed.v1",
                    "revision": 1,
                    "trace_id": None,
                    "applied_at": "2026-01-31T12:00:00Z",
                }
            ],
            "indexed": {"version": 1, "chunk_count": 31, "text_revision": 1, "indexed_at": "2026-01-31T12:00:05Z"},
            "job": None,
        }
    )

    kb_id: str
    document_id: str
    status: DocumentStatus = Field(description="State of the document in the knowledge base.")
    reason: str = Field(description="Explanation of the state in words.")
    knowledge_base_name: str
    knowledge_base_tag_ids: list[str] = Field(description="Tags of the knowledge base.")
    knowledge_base_paused_at: datetime | None = Field(
        description="Time at which the indexing of the knowledge base was paused; null while it goes on."
    )
    shared_tag_ids: list[str] = Field(description="Tags that both the document and the knowledge base have.")
    document: DocumentState | None = Field(
        description="State of the document as its events describe it; null if no event of it has come."
    )
    events: list[EventView] = Field(description="Last events that changed the document, newest first.")
    indexed: IndexedDocumentState | None = Field(
        description="Indexed state of the document; null if it is not indexed."
    )
    job: JobState | None = Field(description="Open or failed job of the document; null if there is none.")


class ChunkView(BaseModel):
    chunk_id: str = Field(description="Stable id of the passage, as in search results and citations.")
    chunk_index: int = Field(description="Position of the chunk in its document, from 0.")
    content: str = Field(description="Text of the chunk.")
    token_count: int = Field(description="Number of tokens of the content.")
    start: int = Field(description="Position of the first character of the chunk in the text of the document.")
    end: int = Field(description="Position after the last character of the chunk in the text of the document.")
    page_start: int | None = Field(description="First page of the chunk; null if the text has no pages.")
    page_end: int | None = Field(description="Last page of the chunk; null if the text has no pages.")
    heading_path: list[str] = Field(description="Headings above the chunk, outermost first.")
    chunk_type: str = Field(description="Kind of content, such as text or a table.")
    indexed_at: datetime


class ChunkList(BaseModel):
    model_config = example(
        {
            "document_id": "handbook",
            "version": 1,
            "chunks": [
                {
                    "chunk_id": "handbook:5f2b1c9e8d7a6b4c3d2e1f00:0",
                    "chunk_index": 0,
                    "content": "# Leave\n\nEmployees have 30 days of leave a year.",
                    "token_count": 13,
                    "start": 0,
                    "end": 49,
                    "page_start": None,
                    "page_end": None,
                    "heading_path": ["Leave"],
                    "chunk_type": "text",
                    "indexed_at": "2026-01-31T12:00:05Z",
                }
            ],
            "skip": 0,
            "total_count": 31,
        }
    )

    document_id: str
    version: int = Field(
        description="Version of the indexed document. If it differs between two pages, read from the first page again."
    )
    chunks: list[ChunkView]
    skip: int = Field(description="Number of chunks before the first one of this page.")
    total_count: int = Field(description="Number of chunks of the document.")


class OpenedChunk(ChunkView):
    """A passage that a search result or a citation names, with the document that contains it."""

    model_config = example(
        {
            "chunk_id": "handbook:5f2b1c9e8d7a6b4c3d2e1f00:0",
            "chunk_index": 0,
            "content": "Employees have 30 days of leave a year.",
            "token_count": 9,
            "start": 0,
            "end": 39,
            "page_start": None,
            "page_end": None,
            "heading_path": ["Leave"],
            "chunk_type": "text",
            "indexed_at": "2026-01-31T12:00:00Z",
            "kb_id": "65f1c2a3b4d5e6f708192a3b",
            "document_id": "handbook",
            "document_name": "handbook.pdf",
            "upload_date": "2026-01-31T12:00:00Z",
            "metadata": {"year": 2026},
        }
    )

    kb_id: str
    document_id: str
    document_name: str = Field(description="Name of the document.")
    upload_date: datetime
    metadata: dict[str, bool | int | float | str | datetime] = Field(description="Metadata of the document.")
