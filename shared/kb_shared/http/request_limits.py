"""Limits the requests a minute of a key and of an organization, by kind of request, on all replicas together.

The debt of each limit is stored in MongoDB. A process reads it at the first request of a second. It admits the
requests that follow within the second by that debt and by what it has spent since, and writes this a second later. So
a limit costs two writes a second, however many requests there are. It is exact for callers with less than a request a
second. Each replica may admit the remaining limit once per second, so the total can
exceed it briefly.
"""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final, Literal, TypeAlias

from fastapi import Request
from pymongo.errors import PyMongoError

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.errors import RequestError, TransientError
from kb_shared.http.authentication import Caller, CallerWith
from kb_shared.http.dependencies import get_provided
from kb_shared.mongo import rate_limits
from kb_shared.mongo.database import Database
from kb_shared.mongo.rate_limits import Bucket
from kb_shared.settings import HttpSettings

BURST_S: Final = 10.0
"""Seconds of the rate that may be used at once."""
REFRESH_AFTER_S: Final = 1.0
MOST_KNOWN: Final = 10_000
"""Number of meters that are kept. With a meter, what it has spent in its last second is forgotten."""

LimitedOperation: TypeAlias = Literal["search", "run", "administration"]


@dataclass(frozen=True, slots=True)
class RequestLimit:
    """Requests a minute; 0 is no limit."""

    of_key: int
    of_organization: int


def limit_of_administration(settings: HttpSettings) -> RequestLimit:
    """Return the limit of requests other than searches, runs and those about a document."""
    return RequestLimit(
        settings.administrative_calls_per_minute_of_key, settings.administrative_calls_per_minute_of_organization
    )


class RequestLimits:
    """Counts requests, and refuses those above a limit at once."""

    def __init__(self, database: Database, limits: Mapping[LimitedOperation, RequestLimit]) -> None:
        self._database = database
        self.limits: Final = limits
        self._meters: BoundedCache[str, _Meter] = BoundedCache(MOST_KNOWN)

    async def count_request(self, operation: LimitedOperation, caller: Caller) -> None:
        """Count a request. Raises RequestError 429 if a limit is used up; then the request is not counted."""
        limit, organization_id = self.limits[operation], caller.organization_id
        meters = {
            holder: self._meter(Bucket(organization_id, f"{operation}/{name}"), per_minute)
            for holder, name, per_minute in (
                ("key", f"key/{caller.key_id}", limit.of_key),
                ("organization", "organization", limit.of_organization),
            )
            if per_minute
        }
        # Concurrently, for the case that both read MongoDB; most of the time neither does.
        waits_s = await run_all(meter.count_request() for meter in meters.values())
        refusing = [(holder, wait_s) for holder, wait_s in zip(meters, waits_s, strict=True) if wait_s is not None]
        if not refusing:
            return
        for meter, wait_s in zip(meters.values(), waits_s, strict=True):
            if wait_s is None:
                meter.give_back()
        holder, _ = refusing[0]
        pause_s = max(wait_s for _, wait_s in refusing)
        raise RequestError(
            429,
            "too-many-requests",
            f"The limit of {meters[holder].per_minute} requests a minute of this {holder} is used up; try again in "
            f"{math.ceil(pause_s)} s.",
            retry_after_s=pause_s,
        )

    def _meter(self, bucket: Bucket, per_minute: int) -> "_Meter":
        meter = self._meters.find(bucket.row_id)
        if meter is None:
            meter = _Meter(self._database, bucket, per_minute)
            self._meters.put(bucket.row_id, meter)
        return meter


class LimitedCallerWith(CallerWith):
    """Returns the `Caller` of a key with a scope, and counts the request as one of administration.

    `create_app` of the service provides its limits.
    """

    is_of_administration = True

    async def _authenticate(self, request: Request, organization_id: str, *, must_read: bool) -> Caller:
        caller = await super()._authenticate(request, organization_id, must_read=must_read)
        await get_provided(request.app, RequestLimits).count_request("administration", caller)
        return caller


class _Meter:
    """Keeps the debt of one bucket, in seconds until it is paid off, as far as this process knows it."""

    def __init__(self, database: Database, bucket: Bucket, per_minute: int) -> None:
        self.per_minute = per_minute
        self._database = database
        self._bucket = bucket
        self._cost_s = 60.0 / per_minute
        self._debt_s = 0.0
        self._at = monotonic()
        self._unposted_s = 0.0
        """Part of the debt that MongoDB does not know yet; negative for what was given back."""
        self._asked_at: float | None = None
        self._asking = asyncio.Lock()
        self._posting: asyncio.Task[None] | None = None

    async def count_request(self) -> float | None:
        """Count a request. Return None, or the seconds to wait if the limit is used up."""
        if self._is_stale:
            async with self._asking:
                if self._is_stale:
                    made = await self._exchange_debt(self._cost_s)
                    return None if made else self._wait_s
        self._decay()
        if self._debt_s > BURST_S:
            return self._wait_s
        self._add_debt(self._cost_s)
        return None

    def give_back(self) -> None:
        """Take back the last request."""
        self._add_debt(-self._cost_s)

    @property
    def _is_stale(self) -> bool:
        return self._asked_at is None or monotonic() - self._asked_at >= REFRESH_AFTER_S

    @property
    def _wait_s(self) -> float:
        return max(0.0, self._debt_s - BURST_S)

    def _add_debt(self, cost_s: float) -> None:
        self._debt_s = max(0.0, self._debt_s + cost_s)
        self._unposted_s += cost_s
        if self._posting is None:
            self._posting = asyncio.create_task(self._post())

    async def _post(self) -> None:
        """Write what was spent here for the other replicas, also if no further request comes."""
        await asyncio.sleep(REFRESH_AFTER_S)
        try:
            async with self._asking:
                if self._unposted_s:
                    await self._exchange_debt(0.0)
        except (PyMongoError, TransientError):
            # The next request reads MongoDB, and its caller gets the error.
            self._asked_at = None
        finally:
            self._posting = None

    async def _exchange_debt(self, cost_s: float) -> bool:
        posted_s = self._unposted_s
        spent = await rate_limits.spend(self._database, self._bucket, owed_s=posted_s, cost_s=cost_s, burst_s=BURST_S)
        self._unposted_s -= posted_s
        self._asked_at = self._at = monotonic()
        self._debt_s = max(0.0, spent.debt_s + self._unposted_s)
        return spent.made

    def _decay(self) -> None:
        now = monotonic()
        self._debt_s, self._at = max(0.0, self._debt_s - (now - self._at)), now
