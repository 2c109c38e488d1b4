"""Options of calls, as opposed to what a call is about."""

from dataclasses import dataclass
from typing import Final

from kb_client.retries import DEFAULT_RETRIES
from kb_client.unset import UNSET, Unset

DEFAULT_TIMEOUT_S: Final = 60.0
CONNECT_WITHIN_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class CallOptions:
    """Time limit and retries of calls."""

    timeout_s: float | Unset = UNSET
    """Time limit of a call with its retries; for a stream, of the wait for its next event."""
    max_retries: int = DEFAULT_RETRIES
    idempotency_key: str | None = None
    """`Idempotency-Key` of creating POSTs; None: each call makes its own."""

    def limit_s(self, within_s: float | None) -> float:
        """Return the time limit of a call that takes `within_s` by default."""
        return (within_s or DEFAULT_TIMEOUT_S) if isinstance(self.timeout_s, Unset) else self.timeout_s
