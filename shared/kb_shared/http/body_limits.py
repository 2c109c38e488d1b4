"""Limits of the JSON body of a request, which an endpoint may raise for itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kb_contracts import strict_json

MAX_BODY_BYTES: Final = 2_000_000
_LIMITS: Final = "body_limits"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class BodyLimits:
    max_bytes: int = MAX_BODY_BYTES
    max_values: int = strict_json.MAX_VALUES
    """Limit of elements, members and containers."""
    advice: str = " Store a longer text of a document with PUT /documents/{document_id}/text and send its text_ref."
    """Advice on a longer body, which begins with a space."""
    malformed_is_unprocessable: bool = False
    """True if a body that is not usable JSON is answered with 422 instead of 400."""


def with_body_limits(limits: BodyLimits) -> Callable[[Endpoint], Endpoint]:
    """Give an endpoint limits of its own."""

    def mark(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _LIMITS, limits)
        return endpoint

    return mark


def limits_of(endpoint: object) -> BodyLimits:
    limits: BodyLimits = getattr(endpoint, _LIMITS, BodyLimits())
    return limits
