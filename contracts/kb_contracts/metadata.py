"""Metadata of documents: what can be stored of them, and what is left out of those that a sender gives."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    TypeAdapter,
    ValidationError,
)

from kb_contracts.cloudevents import Moment
from kb_contracts.errors import Rejected
from kb_contracts.reasons.field_reasons import FieldReason, why_not
from kb_contracts.text_rules import storable

MAX_METADATA_KEYS: Final = 100
MAX_METADATA_VALUE_CHARACTERS: Final = 8_192
MAX_WARNINGS: Final = 20
_MAX_EXAMINED: Final = 1_000
"""Number of keys that are looked at. No more than `MAX_METADATA_KEYS` are stored, and each costs time."""
_MESSAGE_CHARACTERS: Final = 500


def within_64_bits(number: int) -> int:
    """Return `number`. Raises ValueError if it does not fit in 64 bits."""
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"must be within 64 bits, {-(2**63)} to {2**63 - 1}")
    return number


def _storable_number(number: float) -> float:
    if isinstance(number, int):
        return within_64_bits(number)
    if not math.isfinite(number):
        raise ValueError("must be a finite number")
    return number


_KEY: Final = re.compile(r"^[A-Za-z0-9_.-]{1,64}$")
MetadataKey = Annotated[str, Field(pattern=_KEY.pattern)]


class DateValue(BaseModel):
    """A date among metadata, `{"$date": "2026-01-31T00:00:00Z"}`: a plain string stays a string."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    date: Moment = Field(alias="$date")


MetadataValue = (
    StrictBool
    # Checked together: an integer too large for one would else be taken as the other, and lose digits.
    | Annotated[StrictInt | StrictFloat, AfterValidator(_storable_number)]
    | Annotated[str, Field(max_length=MAX_METADATA_VALUE_CHARACTERS), AfterValidator(storable)]
    | DateValue
)
Metadata = Annotated[dict[MetadataKey, MetadataValue], Field(max_length=MAX_METADATA_KEYS)]


class MetadataWarning(BaseModel):
    """A part of a document that was left out or assumed; the document is stored without it."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    field: Annotated[str, Field(max_length=200), AfterValidator(storable)]
    """Path of the value, such as `metadata.authors`, or `text`. A key that can't be one of metadata is not repeated."""
    message: Annotated[str, Field(max_length=_MESSAGE_CHARACTERS), AfterValidator(storable)]
    """Fault of the value, and what is allowed."""


MetadataWarnings = Annotated[tuple[MetadataWarning, ...], Field(max_length=MAX_WARNINGS)]
"""The first parts that were left out, in their order; the last one counts the others if there are too many."""


_METADATA: Final[TypeAdapter[Any]] = TypeAdapter(Metadata)


def storable_metadata(given: object) -> tuple[dict[str, Any], tuple[MetadataWarning, ...]]:
    """Return what can be stored of metadata as JSON has them, in their order, and what is left out of them.

    Whatever is returned first is valid `Metadata`.
    """
    if not isinstance(given, dict):
        return {}, tuple(_warning("", each) for each in why_not(_METADATA, given, quotes=False))
    stored: dict[str, Any] = {}
    warnings: list[MetadataWarning] = []
    for key, value in islice(given.items(), _MAX_EXAMINED):
        faults = why_not(_METADATA, {key: value}, quotes=False)
        if not faults and len(stored) == MAX_METADATA_KEYS:
            faults = [FieldReason(key, f"must be one of the first {MAX_METADATA_KEYS} keys: no more are stored")]
        if faults:
            warnings.append(_warning(key, faults[0]))
        else:
            stored[key] = value
    return stored, _first_of(warnings, count=len(given) - len(stored))


def require_storable_metadata(given: object) -> None:
    """Check metadata as an organization wants it that is strict with them.

    Raises:
        Rejected: `bad-data`, for metadata of which something would be left out.
    """
    _, left_out = ({}, ()) if given is None else storable_metadata(given)
    if left_out:
        raise Rejected("bad-data", "; ".join(f"{each.field}: {each.message}" for each in left_out))


def readable_warnings(given: object) -> Iterator[MetadataWarning]:
    """Yield the warnings among what a sender gave as such."""
    for each in given[:MAX_WARNINGS] if isinstance(given, list | tuple) else ():
        with suppress(ValidationError):
            yield MetadataWarning.model_validate(each)


def _first_of(warnings: Sequence[MetadataWarning], *, count: int) -> tuple[MetadataWarning, ...]:
    """Return the first warnings, and the number of the others if there are too many."""
    if count <= MAX_WARNINGS:
        return tuple(warnings)
    last = MetadataWarning(field="metadata", message=f"{count - MAX_WARNINGS + 1:,} more values can't be stored")
    return (*warnings[: MAX_WARNINGS - 1], last)


def _warning(key: str, reason: FieldReason) -> MetadataWarning:
    path = reason.field.partition(".")[2]
    name = key if _KEY.fullmatch(key) else "?"
    field = ".".join(part for part in ("metadata", name if reason.field else "", path) if part)
    return MetadataWarning(field=field, message=reason.message[:_MESSAGE_CHARACTERS])
