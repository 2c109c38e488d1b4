"""Batches of documents: each one has an outcome of its own."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from kb_contracts.api.documents import PutDocument
from kb_contracts.api.model import StrictModel, example
from kb_contracts.api.problems import FieldProblem
from kb_contracts.identifiers import Identifier

MAX_BATCHED: Final = 100


class BatchedDocument(PutDocument):
    """A document to create or replace, as `PUT /documents/{document_id}` does."""

    document_id: Identifier


class _DescribedAsDocument:
    """Describes an unchecked document in OpenAPI."""

    def __get_pydantic_json_schema__(self, _core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(BatchedDocument.__pydantic_core_schema__)


UncheckedDocument = Annotated[dict[str, Any], _DescribedAsDocument()]
"""A document of a batch. Each is checked by itself, so that a bad one does not refuse the others."""


class BatchOfDocuments(StrictModel):
    """Documents to create or replace.

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
                }
            ]
        }
    )

    documents: Annotated[list[UncheckedDocument], Field(min_length=1, max_length=MAX_BATCHED)]


class RefusedDocument(BaseModel):
    """Problem of one document, as `PUT /documents/{document_id}` would have returned it."""

    status: int = Field(description="HTTP status of the problem.")
    type: str = Field(description="Slug of the problem.")
    detail: str = Field(description="Explanation of the problem and what to do about it.")
    fields: list[FieldProblem] | None = Field(
        default=None, description="Fields that are not valid. Only in a `validation-error`."
    )


class BatchOutcome(BaseModel):
    """Outcome of one document: it was accepted with a revision, or there is a `problem`."""

    document_id: str | None = Field(description="Id of the document; null if it has no usable one.")
    revision: int | None = Field(description="Revision of the accepted event; null if the document was refused.")
    changed: bool = Field(description="Whether the event can change the document, as in `PUT`.")
    problem: RefusedDocument | None = Field(description="Problem of the document; null if it was accepted.")


class BatchOutcomes(BaseModel):
    model_config = example(
        {
            "accepted_count": 1,
            "refused_count": 0,
            "outcomes": [{"document_id": "handbook", "revision": 1, "changed": True, "problem": None}],
        }
    )

    accepted_count: int
    refused_count: int
    outcomes: list[BatchOutcome] = Field(description="Outcomes in the order of the documents.")
