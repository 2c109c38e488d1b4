"""Tags, which decide the knowledge bases that a document belongs to."""

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


class TagView(BaseModel):
    model_config = example({"tag_id": "hr", "name": "Human resources"})

    tag_id: str
    name: str | None = Field(description="Name of the tag; null if only documents have used it so far.")


class TagList(BaseModel):
    model_config = example({"tags": [{"tag_id": "hr", "name": "Human resources"}], "total_count": 1})

    tags: list[TagView]
    total_count: int = Field(description="Number of items on all pages.")
