"""Shares a process between organizations, so that the requests of one do not delay those of the others."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Final

from kb_shared.observability.metrics import HTTP_QUEUE_SECONDS

ACTIVE_S: Final = 10.0
"""Time after its last request for which an organization counts as calling."""
KEPT_S: Final = 0.05
"""Time for which a request that waits for a provider keeps its turn, because preparing the call takes CPU."""


class FairQueue:
    """Limits how many requests of one organization are processed at the same time while other organizations call, too.

    The further requests of the organization wait, in the order in which they came. An organization that calls alone
    has no limit.
    """

    def __init__(self, *, max_active: int, clock: Callable[[], float] = monotonic) -> None:
        """Create an empty queue.

        Args:
            max_active: requests of one organization that are processed at once while other organizations call.
            clock: seconds of a monotonic clock.
        """
        self._max_active = max_active
        self._clock = clock
        self._organizations: OrderedDict[str, _Organization] = OrderedDict()
        """Organizations in the order of their last call."""

    @asynccontextmanager
    async def take_turn(self, organization_id: str) -> AsyncIterator[None]:
        """Hold a turn while the body processes a request. A nested turn, as of a part of the request, does not wait."""
        if _current.get() is not None:
            yield
            return
        turn = _QueueTurn(self, organization_id)
        await self.enter(organization_id, is_first=False)
        token = _current.set(turn)
        try:
            yield
        finally:
            _current.reset(token)
            turn.end()

    async def enter(self, organization_id: str, *, is_first: bool) -> None:
        """Wait until a request may be processed; `is_first` puts it before the waiting ones."""
        organization = self._note_call(organization_id)
        if organization.active < self._limit(organization_id):
            organization.active += 1
            return
        began = perf_counter()
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (organization.waiting.appendleft if is_first else organization.waiting.append)(woken)
        try:
            await woken
        except asyncio.CancelledError:
            if not woken.cancelled():
                # The turn came just when the caller was cancelled.
                self.leave(organization_id)
            raise
        HTTP_QUEUE_SECONDS.observe(perf_counter() - began)

    def leave(self, organization_id: str) -> None:
        organization = self._note_call(organization_id)
        organization.active -= 1
        organization.wake(limit=self._limit(organization_id))

    def _note_call(self, organization_id: str) -> "_Organization":
        organization = self._organizations.setdefault(organization_id, _Organization())
        organization.called_at = self._clock()
        self._organizations.move_to_end(organization_id)
        return organization

    def others_call(self, organization_id: str) -> bool:
        """Return whether another organization has called in the last seconds."""
        self._forget_inactive()
        return len(self._organizations) > (organization_id in self._organizations)

    def _limit(self, organization_id: str) -> float:
        return self._max_active if self.others_call(organization_id) else float("inf")

    def _forget_inactive(self) -> None:
        oldest = self._clock() - ACTIVE_S
        while self._organizations:
            organization_id, organization = next(iter(self._organizations.items()))
            if organization.active or organization.waiting or organization.called_at >= oldest:
                return
            del self._organizations[organization_id]


@asynccontextmanager
async def pause_turn(*, after_s: float = KEPT_S) -> AsyncIterator[None]:
    """Pause the turn while the body waits for a provider or for the caller, so that another request is processed.

    The turn is kept for the first `after_s`. Does nothing without a turn. After a cancellation the turn is not resumed.
    """
    turn = _current.get()
    if turn is None:
        yield
        return
    pausing = asyncio.get_running_loop().call_later(after_s, turn.pause)
    try:
        yield
    except Exception:
        pausing.cancel()
        await turn.resume()
        raise
    finally:
        pausing.cancel()
    await turn.resume()


@dataclass(slots=True)
class _Organization:
    active: int = 0
    """Number of requests that are processed now."""
    called_at: float = 0.0
    waiting: "deque[asyncio.Future[None]]" = field(default_factory=deque)

    def wake(self, *, limit: float) -> None:
        """Wake waiting requests up to the limit."""
        while self.waiting and self.active < limit:
            woken = self.waiting.popleft()
            # It is cancelled if its caller has left.
            if not woken.done():
                self.active += 1
                woken.set_result(None)


class _QueueTurn:
    """Turn of one request, shared by its tasks."""

    def __init__(self, queue: FairQueue, organization_id: str) -> None:
        self._queue = queue
        self._organization_id = organization_id
        self._is_held = True
        self._is_entering = False
        self._has_ended = False

    def pause(self) -> None:
        if self._is_held:
            self._is_held = False
            self._queue.leave(self._organization_id)

    async def resume(self) -> None:
        """Wait for the turn again, unless another task of the request has it or waits for it."""
        if self._is_held or self._is_entering:
            return
        self._is_entering = True
        try:
            await self._queue.enter(self._organization_id, is_first=True)
        finally:
            self._is_entering = False
        self._is_held = True
        if self._has_ended:
            self.pause()

    def end(self) -> None:
        self._has_ended = True
        self.pause()


_current: ContextVar[_QueueTurn | None] = ContextVar("turn", default=None)
