"""JSON schema of `metadata_filter` for OpenAPI."""

import re
from typing import Any, Final

from kb_contracts.documents import MAX_METADATA_VALUE_CHARACTERS
from kb_search.filters.metadata_filter import (
    DATE,
    MAX_CLAUSES,
    MAX_DEPTH,
    MAX_KEY_CHARACTERS,
    MAX_VALUES,
    METADATA_KEY_PATTERN,
)
from kb_shared.text.filter_keys import INSTEAD, UNSAFE_NAMES

Schema = dict[str, Any]

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


def describe_filter(schema: Schema) -> None:
    """Describe `metadata_filter` in the schema of the field."""
    schema["anyOf"] = [_filter(combined=MAX_DEPTH), {"type": "null"}]
    schema["description"] = (
        "`document_name`, `tag_ids` or a metadata key, each with a value that it must equal, a list of such values, or "
        'operators; a time is written `{"$date": "2026-01-31T12:00:00Z"}`. `$and` and `$or` take lists of such '
        "filters. All keys must match. `$ne` and `$nin` also match documents "
        "without the key. On metadata keys, `$ne`, `$nin`, `$gt`, `$gte`, `$lt` and `$lte` need the key in "
        f"`filterable_metadata` of the knowledge base. At most {MAX_CLAUSES} keys with an operator and {MAX_VALUES} "
        f"values in all, `$and` and `$or` {MAX_DEPTH} deep."
    )
    schema["examples"] = [
        {"document_name": "report.pdf", "language": ["en", "de"]},
        {"$or": [{"language": "en"}, {"tag_ids": {"$nin": ["drafts"]}}]},
    ]


def _filter(*, combined: int) -> Schema:
    """Build the schema of a filter in which `$and` and `$or` may be nested `combined` levels deeper."""
    reserved = "|".join(re.escape(name) for name in INSTEAD)
    unsafe = "|".join(UNSAFE_NAMES)
    also = r"|\$and|\$or" if combined else ""
    schema: Schema = {
        "type": "object",
        "properties": {"document_name": _condition(_TEXT, ordered=_TEXT), "tag_ids": _condition(_TEXT)},
        "propertyNames": {
            "pattern": f"^({METADATA_KEY_PATTERN}{also})$",
            "maxLength": MAX_KEY_CHARACTERS,
            "not": {"pattern": rf"^({reserved})(\.|$)|(^|\.)({unsafe})(\.|$)"},
        },
        "additionalProperties": _condition(_SCALAR, ordered=_ORDERED),
        "maxProperties": MAX_CLAUSES,
    }
    if combined:
        inner = _filter(combined=combined - 1) | {"minProperties": 1}
        filters = {"type": "array", "items": inner, "minItems": 1, "maxItems": MAX_CLAUSES}
        schema["properties"] |= {"$and": filters, "$or": filters}
    return schema


def _condition(scalar: Schema, *, ordered: Schema | None = None) -> Schema:
    some = {"type": "array", "items": scalar, "minItems": 1, "maxItems": MAX_VALUES}
    operators = {"$eq": scalar, "$ne": scalar, "$in": some, "$nin": some}
    if ordered is not None:
        operators |= dict.fromkeys(("$gt", "$gte", "$lt", "$lte"), ordered)
    by_operator = {"type": "object", "properties": operators, "additionalProperties": False, "minProperties": 1}
    return {"anyOf": [scalar, some, by_operator]}
