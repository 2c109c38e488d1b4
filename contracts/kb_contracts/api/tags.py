"""Tags, which decide the knowledge bases that a document belongs to."""

from typing import Final

from pydantic import BaseModel, Field

from kb_contracts.api.model import Name, StrictModel, example
from kb_contracts.identifiers import Identifier


class PutTag(StrictModel):
    model_config = example({"tag_id": "hr", "name": "Human resources"})

    tag_id: Identifier
    name: Name = Field(description="Name for people.")


class RenameTag(StrictModel):
    model_config = example({"name": "Human resources"})

    name: Name = Field(description="Name for people.")


_TAG: Final = {"tag_id": "hr", "name": "Human resources", "document_count": 42, "knowledge_base_count": 1}


class TagView(BaseModel):
    model_config = example(_TAG)

    tag_id: str
    name: str | None = Field(description="Name of the tag; null if only documents have used it so far.")
    document_count: int = Field(description="Number of documents that have the tag, also those without a text.")
    knowledge_base_count: int = Field(description="Number of knowledge bases that have the tag.")


class TagList(BaseModel):
    model_config = example({"tags": [_TAG], "total_count": 1})

    tags: list[TagView]
    total_count: int = Field(description="Number of items on all pages.")
