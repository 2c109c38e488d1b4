"""Building blocks of requests and responses."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    StringConstraints,
)


def example(value: Mapping[str, Any]) -> ConfigDict:
    """Return the configuration of a model that is a whole request or response, with an example for its readers."""
    return ConfigDict(json_schema_extra={"examples": [dict(value)]})


class StrictModel(BaseModel):
    """A request body: unknown fields are errors, and strings are not converted to numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def optional_change(description: str | None = None) -> Any:
    """Return a field that is left out to stay as it is, and that has no default in the schema.

    What counts is `model_fields_set`: the value of an absent field is None, whatever its type says.
    """
    described: dict[str, Any] = {} if description is None else {"description": description}
    return Field(default=None, json_schema_extra=_without_default, **described)


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


class MessageResponse(BaseModel):
    """Confirmation that a request was carried out."""

    model_config = example({"message": "Knowledge base deleted successfully"})

    message: str


NextCursor = Annotated[
    str | None, Field(default=None, description="`cursor` of the next page; null after the last page.")
]
Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"),
]
"""Name of a resource: at least one visible character, and no control characters."""
MinScore = Annotated[float, Field(ge=0, le=1)]
"""Smallest similarity of a hit, as (1 + cosine) / 2."""
PerMinute = Annotated[int, Field(ge=1, le=1_000_000_000)]
ObjectId = Annotated[str, Field(pattern=r"^[0-9a-f]{24}$")]

_RFC3339: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}.*")


def _written_as_time(value: object) -> object:
    # Otherwise pydantic would accept numbers and bare dates.
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise ValueError("must be an RFC 3339 time with its offset, such as 2026-01-31T12:00:00Z")
    return value


def in_utc(value: datetime) -> datetime:
    """Return a time in UTC as MongoDB stores it."""
    try:
        utc = value.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be within the years 1 to 9999 in UTC") from None
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


Timestamp = Annotated[AwareDatetime, Strict(strict=False), BeforeValidator(_written_as_time), AfterValidator(in_utc)]
"""RFC 3339 time with its offset, converted to UTC and whole milliseconds, as MongoDB stores times."""
