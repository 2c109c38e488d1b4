"""Properties of entities, nodes and edges: flat maps."""

from datetime import datetime
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from kb_contracts.metadata import DateValue, MetadataValue
from kb_contracts.text_rules import storable

MAX_PROPERTIES = 100


def _as_date(value: object) -> object:
    return DateValue(date=value) if isinstance(value, datetime) else value


PropertyName: TypeAlias = Annotated[
    str,
    StringConstraints(min_length=1, max_length=64, pattern=r"^[^\s.$\x00-\x1f\x7f][^.\x00-\x1f\x7f]*$"),
    AfterValidator(storable),
]
"""Name without dots and control characters, which does not begin with a space or a dollar sign."""
PropertyValue: TypeAlias = Annotated[MetadataValue, BeforeValidator(_as_date)]
"""String, number, boolean or date, `{"$date": "2026-01-31T00:00:00Z"}`; in Python also a datetime with its offset."""
Properties: TypeAlias = Annotated[dict[PropertyName, PropertyValue], Field(max_length=MAX_PROPERTIES)]
