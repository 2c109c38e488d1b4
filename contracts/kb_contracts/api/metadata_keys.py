"""Metadata keys of the documents of a knowledge base, to build filters from."""

from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import BaseModel, Field

from kb_contracts.api.model import example

MetadataType: TypeAlias = Literal["string", "number", "boolean", "date"]
MetadataKeyValue: TypeAlias = bool | int | float | str | datetime


class MetadataTopValue(BaseModel):
    value: MetadataKeyValue
    document_count: int


class MetadataTypeView(BaseModel):
    """Values of one type that a metadata key has."""

    type: MetadataType
    document_count: int
    least: MetadataKeyValue | None = Field(description="Least number or date; null for other types.")
    greatest: MetadataKeyValue | None = Field(description="Greatest number or date; null for other types.")
    top_values: list[MetadataTopValue] = Field(
        description="Most frequent values, at most 10. Strings of more than 100 characters are left out."
    )


class MetadataKeyView(BaseModel):
    key: str
    document_count: int = Field(description="Number of documents with the key.")
    filterable: bool = Field(
        description="Whether `$ne`, `$nin`, `$gt`, `$gte`, `$lt` and `$lte` work on the key, because it is in "
        "`filterable_metadata` of the knowledge base. `$eq` and `$in` work on all keys."
    )
    types: list[MetadataTypeView] = Field(description="Types of the values, the most frequent first.")


class MetadataKeyList(BaseModel):
    model_config = example(
        {
            "keys": [
                {
                    "key": "year",
                    "document_count": 42,
                    "filterable": True,
                    "types": [
                        {
                            "type": "number",
                            "document_count": 42,
                            "least": 2019,
                            "greatest": 2026,
                            "top_values": [{"value": 2026, "document_count": 17}],
                        }
                    ],
                }
            ],
            "document_count": 42,
            "is_exact": True,
        }
    )

    keys: list[MetadataKeyView] = Field(description="Keys by the number of their documents, at most 200.")
    document_count: int = Field(description="Number of documents that were looked at.")
    is_exact: bool = Field(
        description="Whether these are all documents with a tag of the knowledge base. If it has more than 10,000, "
        "only so many are looked at, and all numbers are those of these documents."
    )
