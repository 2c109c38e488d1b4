"""How many requests of a kind a key and an organization may make a minute, on all replicas together.

What is spent stands in MongoDB. A process asks there for the first request of a second, and admits those that follow
within the second by what it learnt then and has spent since, which it tells the others a second later. So a limit costs
two writes a second, however many requests there are, and is exact for whoever asks less often. In each second every
replica may admit what the limit had left.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final, Literal, TypeAlias

from fastapi import Request
from pymongo.errors import PyMongoError

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.errors import RequestError, TransientError
from kb_shared.http.authentication import Caller, CallerWith
from kb_shared.http.dependencies import get_provided
from kb_shared.mongo import rate_limits
from kb_shared.mongo.database import Database
from kb_shared.mongo.rate_limits import Bucket
from kb_shared.settings import HttpSettings

BURST_S: Final = 10.0
"""Seconds of its rate that may come at once."""
ASK_AFTER_S: Final = 1.0
MOST_KNOWN: Final = 10_000
"""Meters; what a forgotten one has spent in its last second is forgotten, too."""

Operation: TypeAlias = Literal["search", "run", "administration"]


@dataclass(frozen=True, slots=True)
class Limit:
    """Requests a minute; 0 is no limit."""

    of_key: int
    of_organization: int


def limit_of_administration(settings: HttpSettings) -> Limit:
    """Return the limit of calls that are no search, no run and nothing about a document."""
    return Limit(
        settings.administrative_calls_per_minute_of_key, settings.administrative_calls_per_minute_of_organization
    )


class RequestLimits:
    """Refuses at once; nobody waits."""

    def __init__(self, database: Database, limits: Mapping[Operation, Limit]) -> None:
        self._database = database
        self._limits = limits
        self._meters: BoundedCache[str, _Meter] = BoundedCache(MOST_KNOWN)

    async def count_request(self, operation: Operation, caller: Caller) -> None:
        """Count a request. Raises RequestError 429 if a limit is used up; then it counts for nobody."""
        limit, organization_id = self._limits[operation], caller.organization_id
        meters = {
            whose: self._meter(Bucket(organization_id, f"{operation}/{name}"), per_minute)
            for whose, name, per_minute in (
                ("key", f"key/{caller.key_id}", limit.of_key),
                ("organization", "organization", limit.of_organization),
            )
            if per_minute
        }
        # Both at once where MongoDB is asked; most of the time neither does.
        waits_s = await asyncio.gather(*(meter.count_request() for meter in meters.values()))
        refusing = [(whose, wait_s) for whose, wait_s in zip(meters, waits_s, strict=True) if wait_s is not None]
        if not refusing:
            return
        for meter, wait_s in zip(meters.values(), waits_s, strict=True):
            if wait_s is None:
                meter.give_back()
        whose, _ = refusing[0]
        raise RequestError(
            429,
            "too-many-requests",
            f"The limit of {meters[whose].per_minute} a minute of this {whose} is used up; try again after "
            "Retry-After.",
            retry_after_s=max(wait_s for _, wait_s in refusing),
        )

    def _meter(self, bucket: Bucket, per_minute: int) -> "_Meter":
        meter = self._meters.find(bucket.row_id)
        if meter is None:
            meter = _Meter(self._database, bucket, per_minute)
            self._meters.put(bucket.row_id, meter)
        return meter


class LimitedCallerWith(CallerWith):
    """Gives the `Caller` of a key with a scope, and counts the request as one of administration.

    `create_app` of the service provides its limits.
    """

    async def _admitted(self, request: Request, organization_id: str, *, at_once: bool) -> Caller:
        caller = await super()._admitted(request, organization_id, at_once=at_once)
        await get_provided(request.app, RequestLimits).count_request("administration", caller)
        return caller


class _Meter:
    """Debt of one bucket, as far as this process knows, in seconds until it is paid off."""

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
        """Count a request; if there is no room for it, return the seconds until there is."""
        if self._is_stale:
            async with self._asking:
                if self._is_stale:
                    made = await self._ask(self._cost_s)
                    return None if made else self._wait_s
        self._decay()
        if self._debt_s > BURST_S:
            return self._wait_s
        self._note(self._cost_s)
        return None

    def give_back(self) -> None:
        """Take back the last request."""
        self._note(-self._cost_s)

    @property
    def _is_stale(self) -> bool:
        return self._asked_at is None or monotonic() - self._asked_at >= ASK_AFTER_S

    @property
    def _wait_s(self) -> float:
        return max(0.0, self._debt_s - BURST_S)

    def _note(self, cost_s: float) -> None:
        self._debt_s = max(0.0, self._debt_s + cost_s)
        self._unposted_s += cost_s
        if self._posting is None:
            self._posting = asyncio.create_task(self._post())

    async def _post(self) -> None:
        """Let the other replicas know what was spent here, also if no further request comes."""
        await asyncio.sleep(ASK_AFTER_S)
        try:
            async with self._asking:
                if self._unposted_s:
                    await self._ask(0.0)
        except (PyMongoError, TransientError):
            # The next request asks, and tells whoever makes it what is wrong.
            self._asked_at = None
        finally:
            self._posting = None

    async def _ask(self, cost_s: float) -> bool:
        posted_s = self._unposted_s
        spent = await rate_limits.spend(self._database, self._bucket, owed_s=posted_s, cost_s=cost_s, burst_s=BURST_S)
        self._unposted_s -= posted_s
        self._asked_at = self._at = monotonic()
        self._debt_s = max(0.0, spent.debt_s + self._unposted_s)
        return spent.made

    def _decay(self) -> None:
        now = monotonic()
        self._debt_s, self._at = max(0.0, self._debt_s - (now - self._at)), now
