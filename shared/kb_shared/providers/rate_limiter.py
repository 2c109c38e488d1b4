"""Limits requests and tokens a minute: a caller reserves them from a bucket, and waits until they may be spent.

Callers of one process that wait for a bucket stand in line, first come, first served. The first one makes one
reservation for itself and for those behind it that fit into a block. A process has one reservation at a time: so
replicas take turns, block by block, and a long line in one delays the others by no more than a block.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.errors import Parked
from kb_shared.mongo import rate_limits
from kb_shared.mongo.database import Database
from kb_shared.mongo.rate_limits import Bucket, Closing, RateReservation
from kb_shared.observability.metrics import RATE_LIMIT_REJECTED, RATE_LIMIT_WAIT_SECONDS

BLOCK_S: Final = 0.05
"""Seconds of its rate that are reserved at once for a queue of small requests."""
LIFETIME_S: Final = 0.5
"""Lifetime of a reservation that was not spent; later it would come on top of what others spend."""
FRESH_S: Final = 0.25
"""Time for which a bucket is assumed to be open after it was read; a pause is known to all replicas after that time."""
LONGEST_PAUSE_S: Final = 3_600.0
"""Longest pause that a provider can ask for: a pause can't be ended early."""
MAX_IDLE_LINES: Final = 1_000

_SCOPES: Final = {"kb": "knowledge base", "model": "model"}


@dataclass(frozen=True, slots=True, eq=False)
class _UnitRequest:
    requests: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _Block:
    """Units reserved and not yet spent."""

    reservation: RateReservation
    may_go_at: float
    """Time on the loop's clock, if no pause comes in between."""
    requests: int
    tokens: int

    def covers(self, ask: _UnitRequest) -> bool:
        return ask.requests <= self.requests and ask.tokens <= self.tokens

    def subtract_request(self, ask: _UnitRequest) -> "_Block":
        return replace(self, requests=self.requests - ask.requests, tokens=self.tokens - ask.tokens)


@dataclass(slots=True)
class _WaitingLine:
    """Queue of this process at one bucket, and the known state of the bucket."""

    asks: deque[_UnitRequest] = field(default_factory=deque)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    block: _Block | None = None
    opens_at: float = 0.0
    paused_s: float = 0.0
    """Sum of all pauses of the bucket."""
    known_at: float = float("-inf")

    def learn(self, closing: Closing) -> None:
        now = _now()
        self.opens_at = now + closing.left_s if closing.left_s else 0.0
        self.paused_s = closing.total_s
        self.known_at = now

    def goes_at(self, block: _Block) -> float:
        paused_since_s = max(0.0, self.paused_s - block.reservation.closing.total_s)
        return max(block.may_go_at + paused_since_s, self.opens_at)

    def first_together(self, bucket: Bucket) -> tuple[int, int]:
        """Return requests and tokens of the first request, and of those behind it that fit into the same block."""
        requests = tokens = 0
        for ask in self.asks:
            together = requests + ask.requests, tokens + ask.tokens
            too_much = max(bucket.costs_ms(*together).values()) > BLOCK_S * 1000
            if too_much and (requests or tokens):
                break
            requests, tokens = together
        return requests, tokens


class RateLimiter:
    """Keeps all replicas together within the limits of all buckets."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lines: BoundedCache[str, _WaitingLine] = BoundedCache(
            MAX_IDLE_LINES, is_in_use=lambda line: bool(line.asks)
        )
        self._returns: set[asyncio.Task[None]] = set()

    async def reserve(self, bucket: Bucket, *, requests: int = 1, tokens: int = 0, patience_s: float = 15.0) -> None:
        """Return when so much may be spent: at once, or after the earlier callers.

        An amount larger than the bucket waits until the bucket is full, and delays later callers accordingly. A
        cancelled caller gives back its reservation.

        Raises:
            Parked: the wait would be, or was, longer than `patience_s`; nothing was taken.
        """
        if not (bucket.limited or bucket.closable):
            return
        began = _now()
        line = self._line(bucket)
        ask = _UnitRequest(requests, tokens)
        line.asks.append(ask)
        try:
            async with self._first_in_line(bucket, line, patience_s):
                await self._wait_until_allowed(bucket, line, ask, until=began + patience_s)
        finally:
            line.asks.remove(ask)
            if not line.asks:
                self._give_back_rest(bucket, line)
        RATE_LIMIT_WAIT_SECONDS.labels(bucket.scope).observe(_now() - began)

    async def check_available(self, bucket: Bucket, *, patience_s: float = 15.0) -> None:
        """Raise Parked if `reserve` would for any amount now; reserves nothing."""
        if bucket.limited:
            nothing = await rate_limits.reserve(self._database, bucket, requests=0, tokens=0, longest_wait_s=patience_s)
            wait_s = nothing.wait_s
        else:
            wait_s = (await rate_limits.read_closing(self._database, bucket)).left_s if bucket.closable else 0.0
        if wait_s > patience_s:
            raise _rejected(bucket, wait_s)

    async def close(self, bucket: Bucket, retry_after_s: float) -> None:
        """Close `bucket` on all replicas for so long, an hour at most, because its provider asks for a pause."""
        closing = await rate_limits.close(self._database, bucket, for_s=min(retry_after_s, LONGEST_PAUSE_S))
        self._line(bucket).learn(closing)

    async def wait_for_returns(self) -> None:
        """Wait until cancelled callers have given back their reservations. Call it before the database is closed."""
        await asyncio.gather(*self._returns, return_exceptions=True)

    def _line(self, bucket: Bucket) -> _WaitingLine:
        line = self._lines.find(bucket.row_id)
        if line is None:
            line = _WaitingLine()
            self._lines.put(bucket.row_id, line)
        return line

    @asynccontextmanager
    async def _first_in_line(self, bucket: Bucket, line: _WaitingLine, patience_s: float) -> AsyncIterator[None]:
        """Wait to be the first in the line, and stay it in the block. Only this wait uses up patience."""
        try:
            # Without a limit, those before only wait for the end of a pause, and give up themselves if it is too long.
            async with asyncio.timeout(patience_s if bucket.limited else None):
                await line.turn.acquire()
        except TimeoutError:
            raise _rejected(bucket, patience_s) from None
        try:
            yield
        finally:
            line.turn.release()

    async def _wait_until_allowed(self, bucket: Bucket, line: _WaitingLine, ask: _UnitRequest, *, until: float) -> None:
        if not bucket.limited:
            await self._sleep(bucket, line, lambda: line.opens_at, until=until)
            return
        while True:
            block = line.block
            if block is None or not block.covers(ask):
                block = await self._reserve(bucket, line, until=until)
            # Kept in the line while it is waited for: if this one is cancelled, the next one has it.
            line.block = block
            await self._sleep(bucket, line, partial(line.goes_at, block), until=until)
            if _now() - line.goes_at(block) <= LIFETIME_S:
                line.block = block.subtract_request(ask)
                return
            line.block = None

    async def _reserve(self, bucket: Bucket, line: _WaitingLine, *, until: float) -> _Block:
        requests, tokens = line.first_together(bucket)
        longest_wait_s = max(0.0, until - _now())
        reserving = asyncio.create_task(
            rate_limits.reserve(self._database, bucket, requests=requests, tokens=tokens, longest_wait_s=longest_wait_s)
        )
        try:
            reservation = await asyncio.shield(reserving)
        except asyncio.CancelledError:
            self._run_in_background(self._undo(bucket, reserving, requests=requests, tokens=tokens))
            raise
        line.learn(reservation.closing)
        if not reservation.made:
            raise _rejected(bucket, reservation.wait_s)
        return _Block(reservation, _now() + reservation.wait_s, requests, tokens)

    async def _sleep(self, bucket: Bucket, line: _WaitingLine, goes_at: Callable[[], float], *, until: float) -> None:
        """Sleep until `goes_at()`, which grows by pauses that come meanwhile."""
        while True:
            if (left_s := goes_at() - _now()) > 0:
                if _now() + left_s > until:
                    raise _rejected(bucket, left_s)
                await asyncio.sleep(left_s)
            elif _now() - line.known_at > FRESH_S:
                line.learn(await rate_limits.read_closing(self._database, bucket))
            else:
                return

    def _give_back_rest(self, bucket: Bucket, line: _WaitingLine) -> None:
        """Give back the rest of the block, which no caller of this process needs."""
        block, line.block = line.block, None
        if block is not None and (block.requests or block.tokens):
            self._run_in_background(
                self._give_back(bucket, block.reservation, requests=block.requests, tokens=block.tokens)
            )

    async def _undo(
        self, bucket: Bucket, reserving: asyncio.Task[RateReservation], *, requests: int, tokens: int
    ) -> None:
        reservation = await reserving
        if reservation.made:
            await self._give_back(bucket, reservation, requests=requests, tokens=tokens)

    async def _give_back(self, bucket: Bucket, reservation: RateReservation, *, requests: int, tokens: int) -> None:
        await rate_limits.give_back(self._database, bucket, reservation, requests=requests, tokens=tokens)

    def _run_in_background(self, giving_back: Coroutine[None, None, None]) -> None:
        """Give back without a waiting caller; after a failure, the units come back with time."""
        task = asyncio.create_task(giving_back)
        self._returns.add(task)
        task.add_done_callback(self._returned)

    def _returned(self, task: asyncio.Task[None]) -> None:
        self._returns.discard(task)
        if not task.cancelled():
            # Read it, so that asyncio does not log it.
            task.exception()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _rejected(bucket: Bucket, wait_s: float) -> Parked:
    RATE_LIMIT_REJECTED.labels(bucket.scope).inc()
    return Parked(
        f"the limit of requests or tokens a minute of this {_SCOPES[bucket.scope]} is used up",
        error_type="rate_limited",
        retry_after_s=wait_s,
    )
