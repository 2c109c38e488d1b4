"""Decides how long a call is repeated in place before its work is queued again."""

import time
from collections.abc import Mapping
from typing import Final

from kb_shared.errors import ProviderUnavailable

_REASONS: Final[Mapping[str, str]] = {
    "provider_429": "429",
    "provider_5xx": "5xx",
    "provider_timeout": "timeout",
    "bad_answer": "bad_answer",
    "late_model_failed": "late_model",
}
"""Reasons of retries by error type. The first four are the status classes that the responses are counted by."""


def retry_reason(error: ProviderUnavailable) -> str:
    """Return why a call is repeated, one of a closed set for the metric; `other` for a type that is not known."""
    return _REASONS.get(error.error_type, "other")


class RetryPolicy:
    """Retry policy of one call. `decide` is a stamina hook: whether to repeat, or after how many seconds exactly.

    If a provider asks for a longer pause than is left, the call is not repeated here, and the work is queued again.
    """

    MAX_BAD_ANSWERS = 3

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._bad_answers = 0

    def decide(self, error: Exception) -> bool | float:
        if not isinstance(error, ProviderUnavailable):
            return False
        if error.error_type == "bad_answer":
            self._bad_answers += 1
            return self._bad_answers < self.MAX_BAD_ANSWERS
        if error.retry_after_s is None:
            return True
        return error.retry_after_s if time.monotonic() + error.retry_after_s <= self._deadline else False
