"""Defines what all batches have in common: entries that are checked and refused one by one."""

from typing import Any, Final

from pydantic import BaseModel, Field, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from kb_contracts.api.problems import FieldProblem

MAX_BATCHED: Final = 100


class DescribedAs:
    """Describes an entry in OpenAPI that is not checked with its batch: a bad one does not refuse the others."""

    def __init__(self, checked: Any) -> None:
        self._checked = TypeAdapter(checked)

    def __get_pydantic_json_schema__(self, _core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(self._checked.core_schema)


class RefusedEntry(BaseModel):
    """Problem of one entry, as the call for it alone would have returned it."""

    status: int = Field(description="HTTP status of the problem.")
    type: str = Field(description="Slug of the problem.")
    detail: str = Field(description="Explanation of the problem and what to do about it.")
    fields: list[FieldProblem] | None = Field(
        default=None, description="Fields that are not valid. Only in a `validation-error`."
    )
