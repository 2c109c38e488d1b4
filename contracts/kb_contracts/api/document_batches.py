"""Batches of documents: each one has an outcome of its own."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from kb_contracts.api.batches import MAX_BATCHED, DescribedAs, RefusedEntry
from kb_contracts.api.documents import DocumentRequestChange, OutdatedFacets, PatchMetadata, PatchTags, PutDocument
from kb_contracts.api.memberships import LEFT_OUT
from kb_contracts.api.model import StrictModel, example
from kb_contracts.identifiers import Identifier
from kb_contracts.metadata import MetadataWarning


class BatchedDocument(PutDocument):
    """A document to create or replace, as `PUT /documents/{document_id}` does."""

    action: Literal["put"] = "put"
    document_id: Identifier


class BatchedTags(PatchTags):
    """New tags of a document, as `PATCH /documents/{document_id}/tags` replaces them."""

    model_config = example({"action": "replace_tags", "document_id": "travel", "tag_ids": ["hr", "public"]})

    action: Literal["replace_tags"]
    document_id: Identifier


class BatchedMetadata(PatchMetadata):
    """New metadata of a document, as `PATCH /documents/{document_id}/metadata` replaces them."""

    model_config = example({"action": "replace_metadata", "document_id": "travel", "metadata": {"year": 2026}})

    action: Literal["replace_metadata"]
    document_id: Identifier


class BatchedDeletion(DocumentRequestChange):
    """A document to delete, as `DELETE /documents/{document_id}` does."""

    model_config = example({"action": "delete", "document_id": "draft"})

    action: Literal["delete"]
    document_id: Identifier


UncheckedDocument = Annotated[Any, DescribedAs(BatchedDocument | BatchedTags | BatchedMetadata | BatchedDeletion)]


class BatchOfDocuments(StrictModel):
    """Documents to create, replace or delete, and tags and metadata to replace.

    With a `revision` of their own they can be sent again: nothing changes that was accepted before.
    """

    model_config = example(
        {
            "documents": [
                {
                    "document_id": "handbook",
                    "document_name": "handbook.pdf",
                    "tag_ids": ["hr"],
                    "upload_date": "2026-01-31T12:00:00Z",
                    "text": "Employees have 30 days of leave a year.",
                },
                {"action": "replace_tags", "document_id": "travel", "tag_ids": ["hr", "public"]},
                {"action": "delete", "document_id": "draft"},
            ]
        }
    )

    documents: Annotated[list[UncheckedDocument], Field(min_length=1, max_length=MAX_BATCHED)]


_ACCEPTED: Final = {"changed": True, "outdated": [], "problem": None, "warnings": []}


class BatchOutcome(BaseModel):
    """Outcome of one document: it was accepted with a revision, or there is a `problem`."""

    document_id: str | None = Field(description="Id of the document; null if it has no usable one.")
    revision: int | None = Field(description="Revision of the accepted event; null if the document was refused.")
    changed: bool = Field(description="Whether the event can change the document, as in `PUT`.")
    outdated: OutdatedFacets = []
    problem: RefusedEntry | None = Field(description="Problem of the document; null if it was accepted.")
    warnings: list[MetadataWarning] = Field(default=[], description=LEFT_OUT)


class BatchOutcomes(BaseModel):
    model_config = example(
        {
            "accepted_count": 3,
            "refused_count": 0,
            "outcomes": [
                {
                    "document_id": "handbook",
                    "revision": 1,
                    "changed": True,
                    "outdated": [],
                    "problem": None,
                    "warnings": [],
                },
                {
                    "document_id": "travel",
                    "revision": 4,
                    "changed": True,
                    "outdated": [],
                    "problem": None,
                    "warnings": [],
                },
                {
                    "document_id": "draft",
                    "revision": 2,
                    "changed": True,
                    "outdated": [],
                    "problem": None,
                    "warnings": [],
                },
            ],
        }
    )

    accepted_count: int
    refused_count: int
    outcomes: list[BatchOutcome] = Field(description="Outcomes in the order of the documents.")
