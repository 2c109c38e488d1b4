"""Building blocks of request bodies, list parameters and responses."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Strict


class Model(BaseModel):
    """A request body: unknown fields are errors, and a string is not taken for a number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class MessageResponse(BaseModel):
    """The body of a request that was done and has nothing to return."""

    message: str


Skip = Annotated[int, Query(ge=0, le=1_000_000_000)]
Limit = Annotated[int, Query(ge=1, le=100)]
DEFAULT_LIMIT = 10


_RFC3339: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}.*")


def _written_as_time(value: object) -> object:
    # Numbers and bare dates would be taken for times otherwise.
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise ValueError("must be an RFC 3339 time with its offset, such as 2026-01-31T12:00:00Z")
    return value


def _in_utc(value: datetime) -> datetime:
    try:
        utc = value.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be within the years 1 to 9999 in UTC") from None
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


Timestamp = Annotated[AwareDatetime, Strict(strict=False), BeforeValidator(_written_as_time), AfterValidator(_in_utc)]
"""RFC 3339 with its offset, in a body; from there on in UTC and whole milliseconds, as MongoDB keeps times."""
