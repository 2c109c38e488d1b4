"""Decides whether a request is sent again, and when."""

import random
from typing import Final

from kb_client.errors import ApiError, ConnectionFailed

DEFAULT_RETRIES: Final = 2
BASE_WAIT_S: Final = 0.25
MAX_WAIT_S: Final = 8.0
MAX_RETRY_AFTER_S: Final = 60.0
"""A later `Retry-After`, such as that of an exhausted budget, is left to the caller."""

_BY_STATUS: Final = frozenset({429, 502, 503, 504})
_WITHOUT_RETRY_AFTER: Final = frozenset({"connection-lost", "outcome-unknown", "service-unavailable"})
"""Slugs of problems that may be over soon, although the answer does not say when."""
_NOT_BEGUN: Final = frozenset(
    {"overloaded", "service-unavailable", "too-many-at-once", "too-many-connections", "too-many-requests"}
)
"""Slugs of refusals that come before a request has any effect."""


def decide_retry(
    error: Exception, *, repeatable: bool, attempt: int, remaining_s: float, chance: float | None = None
) -> float | None:
    """Return after how many seconds a failed request is sent again; None if that is of no use or could do harm.

    Args:
        error: of the last attempt. Only an `ApiError` and a `ConnectionFailed` may pass.
        repeatable: whether it does no harm to send the request again after it took effect.
        attempt: number of retries so far.
        remaining_s: time that the call still has.
        chance: random number from 0 to 1, for tests.
    """
    # Full jitter: callers that failed together do not come back together.
    jitter_s = min(MAX_WAIT_S, BASE_WAIT_S * 2**attempt) * (random.random() if chance is None else chance)  # noqa: S311  # no secret
    match error:
        case ConnectionFailed() if repeatable or not error.was_sent:
            wait_s = jitter_s
        case ApiError() if _may_pass(error) and (repeatable or error.slug in _NOT_BEGUN):
            wait_s = (error.retry_after_s or 0.0) + jitter_s
        case _:
            return None
    return wait_s if wait_s < remaining_s else None


def _may_pass(error: ApiError) -> bool:
    """Say whether the same request may succeed soon."""
    if error.retry_after_s is not None:
        return error.retry_after_s <= MAX_RETRY_AFTER_S and error.status in _BY_STATUS | {409}
    return error.status in _BY_STATUS and (error.slug is None or error.slug in _WITHOUT_RETRY_AFTER)
