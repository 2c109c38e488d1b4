"""Reasons in words why a value was refused, which quote nothing of it."""

from typing import Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_MOST_REASONS: Final = 3
_CONSEQUENCES: Final = frozenset({"default_factory_not_called"})
_FORMS: Final = {
    "piece_id": "must have 1 to 100 letters, digits, dots, underscores and dashes",
    "entity_id": "must have the form type:name, such as user:alice, without spaces",
    "entity_type": "must have 1 to 40 letters, digits, underscores and dashes",
    "node_id": "must have 1 to 200 letters, digits and ._@+:- without spaces, such as user:alice",
    "node_type": "must have 1 to 40 letters, digits, underscores and dashes",
    "source_id": "must have 1 to 200 letters, digits and ._@+:- without spaces, such as user:alice",
    "target_id": "must have 1 to 200 letters, digits and ._@+:- without spaces, such as user:alice",
    "edge_type": "must have 1 to 64 letters, digits and _.:- without spaces, such as WORKS_WITH",
    "label": "must be one line without control characters",
    "title": "must be one line without control characters",
    "info_type": "must have no braces, no control characters, and no spaces at its ends",
    "type": "must have 1 to 40 small letters, digits and underscores",
    "tags": "a tag must have 1 to 128 letters, digits, dots, underscores and dashes",
    "properties": "a name must have 1 to 64 characters, no dots, no control characters, and no $ or space at its start",
}
"""Words for the pattern of each field."""


def reason_in_words(model: type[BaseModel], error: ValidationError) -> str:
    """Return why a value is no `model`: each field with its mistake.

    Only names of fields of the model are repeated: a value, or a name that the author chose, may be a secret.
    """
    details = error.errors(include_url=False, include_context=False, include_input=False)
    reasons = list(dict.fromkeys(_reason(model, each) for each in details if each["type"] not in _CONSEQUENCES))
    rest = len(reasons) - _MOST_REASONS
    return "; ".join(reasons[:_MOST_REASONS]) + (f"; and {rest} more" if rest > 0 else "")


def _reason(model: type[BaseModel], error: ErrorDetails) -> str:
    field = str(error["loc"][0]) if error["loc"] else ""
    match error["type"]:
        case "model_type":
            return "must be an object"
        case "extra_forbidden":
            return f"has an unknown field; the fields are {', '.join(model.model_fields)}"
        case "missing":
            return f"{field} is missing"
        case "string_pattern_mismatch":
            words = _FORMS.get(field, "has characters that are not allowed")
        case _:
            words = error["msg"].removeprefix("Value error, ").replace("Input should", "must")
    return f"{field}: {words}" if field in model.model_fields else words
