"""How long to try again in place before the work is handed back."""

import time

from kb_shared.errors import ProviderUnavailable


class RetryPolicy:
    """For one sub-batch; `decide` is a stamina hook: whether to try again, or after how many seconds exactly.

    A provider that asks for more time than is left gets it from whoever queues the work, not from a sleeping task.
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
