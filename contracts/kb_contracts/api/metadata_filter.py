"""Filters of searches by name, tags and metadata: their limits and their JSON schema.

The service that searches checks a filter, and names the key that is wrong.
"""

import re
from typing import Annotated, Any, Final

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema
from typing_extensions import TypeAliasType

from kb_contracts.api.filter_keys import INSTEAD, UNSAFE_NAMES
from kb_contracts.metadata import MAX_METADATA_VALUE_CHARACTERS

MAX_CLAUSES: Final = 50
MAX_VALUES: Final = 100
MAX_DEPTH: Final = 3
METADATA_KEY_PATTERN: Final = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
MAX_KEY_CHARACTERS: Final = 64
MAX_PART_CHARACTERS: Final = 200
"""Limit of a part of a name."""
DATE: Final = "$date"

Schema = dict[str, Any]

_PART: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": MAX_PART_CHARACTERS}
_TEXT: Final[Schema] = {"type": "string", "maxLength": MAX_METADATA_VALUE_CHARACTERS}
# OpenAPI bounds are doubles: this is the last one below 2^63.
_NUMBER: Final[Schema] = {"type": "number", "minimum": -(2**63), "maximum": 2**63 - 1024}
_DATE: Final[Schema] = {
    "type": "object",
    "properties": {DATE: {"type": "string", "format": "date-time"}},
    "required": [DATE],
    "additionalProperties": False,
}
_SCALAR: Final[Schema] = {"anyOf": [_TEXT, _NUMBER, {"type": "boolean"}, _DATE]}
_ORDERED: Final[Schema] = {"anyOf": [_TEXT, _NUMBER, _DATE]}
_DESCRIPTION: Final = (
    "`document_name`, `tag_ids` or a metadata key, each with a value that it must equal, a list of such values, or "
    'operators; a time is written `{"$date": "2026-01-31T12:00:00Z"}`. `$and` and `$or` take lists of such '
    "filters. All keys must match. `$ne` and `$nin` also match documents "
    "without the key. `$contains` matches documents with this text in their name, in upper or lower case, at most "
    "1,000 of them. On metadata keys, `$ne`, `$nin`, `$gt`, `$gte`, `$lt` and `$lte` need the key in "
    f"`filterable_metadata` of the knowledge base. At most {MAX_CLAUSES} keys with an operator and {MAX_VALUES} "
    f"values in all, `$and` and `$or` {MAX_DEPTH} deep."
)
_EXAMPLES: Final = (
    {"document_name": "report.pdf", "language": ["en", "de"]},
    {"document_name": {"$contains": "annual report"}},
    {"$or": [{"language": "en"}, {"tag_ids": {"$nin": ["drafts"]}}]},
)
# The schema contains itself. Written for OpenAPI, whose components have these addresses.
_REFERENCE: Final = {"$ref": "#/components/schemas/MetadataFilter"}


class _FilterSchema:
    """Describes a filter in OpenAPI."""

    def __get_pydantic_json_schema__(self, _core_schema: CoreSchema, _handler: GetJsonSchemaHandler) -> Schema:
        reserved = "|".join(re.escape(name) for name in INSTEAD)
        unsafe = "|".join(UNSAFE_NAMES)
        filters = {"type": "array", "items": _REFERENCE | {"minProperties": 1}, "minItems": 1, "maxItems": MAX_CLAUSES}
        return {
            "type": "object",
            "description": _DESCRIPTION,
            "properties": {
                "document_name": _condition(_TEXT, ordered=_TEXT, more={"$contains": _PART}),
                "tag_ids": _condition(_TEXT),
                "$and": filters,
                "$or": filters,
            },
            "propertyNames": {
                "pattern": rf"^({METADATA_KEY_PATTERN}|\$and|\$or)$",
                "maxLength": MAX_KEY_CHARACTERS,
                "not": {"pattern": rf"^({reserved})(\.|$)|(^|\.)({unsafe})(\.|$)"},
            },
            # In TypeScript the type of all keys has to include those of `$and` and `$or`.
            "additionalProperties": {"anyOf": [_condition(_SCALAR, ordered=_ORDERED), filters]},
            "maxProperties": MAX_CLAUSES,
            "examples": list(_EXAMPLES),
        }


MetadataFilter = TypeAliasType("MetadataFilter", Annotated[dict[str, Any], _FilterSchema()])
"""Filter of a search. Its keys and values are not checked here."""


def _condition(scalar: Schema, *, ordered: Schema | None = None, more: Schema | None = None) -> Schema:
    some = {"type": "array", "items": scalar, "minItems": 1, "maxItems": MAX_VALUES}
    operators = {"$eq": scalar, "$ne": scalar, "$in": some, "$nin": some} | (more or {})
    if ordered is not None:
        operators |= dict.fromkeys(("$gt", "$gte", "$lt", "$lte"), ordered)
    by_operator = {"type": "object", "properties": operators, "additionalProperties": False, "minProperties": 1}
    return {"anyOf": [scalar, some, by_operator]}
