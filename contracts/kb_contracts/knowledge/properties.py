"""Properties of entities, nodes and edges: flat maps."""

from datetime import datetime
from typing import Annotated, Any, TypeAlias

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from kb_contracts.documents import MAX_METADATA_VALUE_CHARACTERS, DateValue, MetadataValue, storable

MAX_PROPERTIES = 100


def _flat_value(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(value, datetime):
        return validate(DateValue(date=value))
    try:
        return validate(value)
    except ValidationError:
        # One sentence instead of the mistakes of each type.
        raise ValueError(
            f"must be a text of at most {MAX_METADATA_VALUE_CHARACTERS:,} characters, a number of 64 bits, "
            'true or false, or a date, {"$date": "2026-01-31T00:00:00Z"}'
        ) from None


PropertyName: TypeAlias = Annotated[
    str,
    StringConstraints(min_length=1, max_length=64, pattern=r"^[^\s.$\x00-\x1f\x7f][^.\x00-\x1f\x7f]*$"),
    AfterValidator(storable),
]
"""Name without dots and control characters, which does not begin with a space or a dollar sign."""
PropertyValue: TypeAlias = Annotated[MetadataValue, WrapValidator(_flat_value)]
"""String, number, boolean or date, `{"$date": "2026-01-31T00:00:00Z"}`; in Python also a datetime with its offset."""
Properties: TypeAlias = Annotated[dict[PropertyName, PropertyValue], Field(max_length=MAX_PROPERTIES)]
