"""How often an address may fail to show a right key, and how often a key may be shown wrongly, in this process.

Nothing is written to MongoDB: who guesses keys must not be able to make it write. Failures alone are counted and
refused, after the key was looked at: many organizations can share an address, and a key id is no secret, so nobody may
lock out a right key by failing.
"""

from dataclasses import dataclass
from time import monotonic
from typing import Final

import structlog

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.errors import RequestError
from kb_shared.observability.log_limit import LogLimit
from kb_shared.observability.metrics import AUTHENTICATION_FAILURES

BURST_S: Final = 60.0
"""Seconds of its rate that may come at once."""
MOST_KNOWN: Final = 10_000
"""Addresses, and key ids: the one that failed longest ago is forgotten."""

log = structlog.get_logger()


class FailedAuthentications:
    """Counts what failed, and says when it is too much."""

    def __init__(self, *, per_minute_of_address: int, per_minute_of_key: int) -> None:
        """Begin with none; 0 is no limit."""
        self._of_address = _Failures(per_minute_of_address)
        self._of_key = _Failures(per_minute_of_key)
        self._log_limit = LogLimit()

    def refusal(self, failure: RequestError, *, address: str, key_id: str | None) -> RequestError:
        """Count a failure.

        Returns:
            `failure`, or the 429 that is answered instead of it when there were too many.
        """
        waits_s = [self._of_address.count(address)]
        if key_id is not None:
            waits_s.append(self._of_key.count(key_id))
        wait_s = max(waits_s)
        AUTHENTICATION_FAILURES.labels("limited" if wait_s else "refused").inc()
        if not wait_s:
            return failure
        # Key ids of strangers are whatever they like; the address is what an operator can act on.
        if (left_out := self._log_limit.admit("failures")) is not None:
            log.warning("authentication.failures_limited", address=address, left_out=left_out)
        return RequestError(
            429,
            "too-many-failed-authentications",
            "Too many requests with a wrong API key, or without one, came from this address or named this key. Send a "
            "right key, or try again after Retry-After.",
            retry_after_s=wait_s,
        )


@dataclass(slots=True)
class _Debt:
    seconds: float
    """Until all failures are made good."""
    at: float


class _Failures:
    """Failures of one kind, by name."""

    def __init__(self, per_minute: int) -> None:
        self._cost_s = 60.0 / per_minute if per_minute else 0.0
        self._debts: BoundedCache[str, _Debt] = BoundedCache(MOST_KNOWN)

    def count(self, name: str) -> float:
        """Count a failure; return the seconds until it would have been within the limit, 0 if it is."""
        if not self._cost_s:
            return 0.0
        now = monotonic()
        debt = self._debts.find(name)
        if debt is None:
            debt = _Debt(0.0, now)
            self._debts.put(name, debt)
        debt.seconds, debt.at = max(0.0, debt.seconds - (now - debt.at)), now
        wait_s = debt.seconds + self._cost_s - max(BURST_S, self._cost_s)
        if wait_s <= 0:
            debt.seconds += self._cost_s
        return max(0.0, wait_s)
