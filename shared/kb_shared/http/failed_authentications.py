"""Limits failed authentications by address and by key id, in this process.

Nothing is written to MongoDB, so that guessing keys causes no writes. Only failed requests are counted and refused,
after the key was read: many organizations can share an address, and a key id is no secret, so failures of others must
not lock out a valid key.
"""

import math
from dataclasses import dataclass
from time import monotonic
from typing import Final

import structlog

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.errors import RequestError
from kb_shared.observability.log_limit import LogLimit
from kb_shared.observability.metrics import AUTHENTICATION_FAILURES

BURST_S: Final = 60.0
"""Seconds of the rate that may be used at once."""
MOST_KNOWN: Final = 10_000
"""Number of addresses, and of key ids, that are remembered; the one that failed longest ago is forgotten first."""

log = structlog.get_logger()


class FailedAuthentications:
    """Counts failed authentications, and refuses them above the limits."""

    def __init__(self, *, per_minute_of_address: int, per_minute_of_key: int) -> None:
        """Begin without failures. A limit of 0 means no limit."""
        self._of_address = _Failures(per_minute_of_address)
        self._of_key = _Failures(per_minute_of_key)
        self._log_limit = LogLimit()

    def count_failure(self, failure: RequestError, *, address: str, key_id: str | None) -> RequestError:
        """Count a failure.

        Returns:
            `failure`, or a 429 to return instead if there were too many.
        """
        waits_s = [self._of_address.count(address)]
        if key_id is not None:
            waits_s.append(self._of_key.count(key_id))
        wait_s = max(waits_s)
        AUTHENTICATION_FAILURES.labels("limited" if wait_s else "refused").inc()
        if not wait_s:
            return failure
        # Log the address only: the key id may be invented, and an operator can act on an address.
        if (left_out := self._log_limit.admit("failures")) is not None:
            log.warning("authentication.failures_limited", address=address, left_out=left_out)
        return RequestError(
            429,
            "too-many-failed-authentications",
            "Too many failed authentications from this address or for this key id. Send a valid key, or try again "
            f"in {math.ceil(wait_s)} s.",
            retry_after_s=wait_s,
        )


@dataclass(slots=True)
class _Debt:
    seconds: float
    """Seconds until the debt is paid off."""
    at: float


class _Failures:
    """Failures of one kind, by name."""

    def __init__(self, per_minute: int) -> None:
        self._cost_s = 60.0 / per_minute if per_minute else 0.0
        self._debts: BoundedCache[str, _Debt] = BoundedCache(MOST_KNOWN)

    def count(self, name: str) -> float:
        """Count a failure. Return the seconds until it would be within the limit, 0 if it is."""
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
