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
"""Time after its last request for which an organization counts as one that calls."""
KEPT_S: Final = 0.05
"""Time for which a request that waits for a provider keeps its turn: to prepare a call takes CPU, too."""


class FairQueue:
    """Limits how many requests of one organization are processed at the same time while other organizations call, too.

    The further requests of the organization wait, in the order in which they came. An organization that calls alone
    has no limit.
    """

    def __init__(self, *, max_active: int, clock: Callable[[], float] = monotonic) -> None:
        """Begin empty.

        Args:
            max_active: requests of one organization that are processed at once while other organizations call.
            clock: in seconds.
        """
        self._max_active = max_active
        self._clock = clock
        self._organizations: OrderedDict[str, _Organization] = OrderedDict()
        """The one that called last is at the end."""

    @asynccontextmanager
    async def turn(self, organization_id: str) -> AsyncIterator[None]:
        """Process a request within this. A turn within a turn, as of a part of the request, does not wait again."""
        if _current.get() is not None:
            yield
            return
        turn = _Turn(self, organization_id)
        await self.enter(organization_id, is_first=False)
        token = _current.set(turn)
        try:
            yield
        finally:
            _current.reset(token)
            turn.end()

    async def enter(self, organization_id: str, *, is_first: bool) -> None:
        """Wait until a request may be processed; `is_first` puts it before those that wait already."""
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
                # It was let in at the moment in which its caller left.
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
        """Say whether another organization has called lately."""
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
async def turn_set_aside(*, after_s: float = KEPT_S) -> AsyncIterator[None]:
    """Wait for a provider or for the caller within this; after some time another request is processed meanwhile.

    Does nothing where no turn is held. What is cancelled within this does not wait for its turn again.
    """
    turn = _current.get()
    if turn is None:
        yield
        return
    setting_aside = asyncio.get_running_loop().call_later(after_s, turn.set_aside)
    try:
        yield
    except Exception:
        setting_aside.cancel()
        await turn.take_up()
        raise
    finally:
        setting_aside.cancel()
    await turn.take_up()


@dataclass(slots=True)
class _Organization:
    active: int = 0
    """Requests that are processed now."""
    called_at: float = 0.0
    waiting: "deque[asyncio.Future[None]]" = field(default_factory=deque)

    def wake(self, *, limit: float) -> None:
        """Let those go on for which there is room."""
        while self.waiting and self.active < limit:
            woken = self.waiting.popleft()
            # One whose caller has left is cancelled.
            if not woken.done():
                self.active += 1
                woken.set_result(None)


class _Turn:
    """The turn of one request, shared by the tasks that it starts."""

    def __init__(self, queue: FairQueue, organization_id: str) -> None:
        self._queue = queue
        self._organization_id = organization_id
        self._is_held = True
        self._is_entering = False
        self._has_ended = False

    def set_aside(self) -> None:
        if self._is_held:
            self._is_held = False
            self._queue.leave(self._organization_id)

    async def take_up(self) -> None:
        """Wait for the turn again, unless another task of the request has it already or waits for it."""
        if self._is_held or self._is_entering:
            return
        self._is_entering = True
        try:
            await self._queue.enter(self._organization_id, is_first=True)
        finally:
            self._is_entering = False
        self._is_held = True
        if self._has_ended:
            self.set_aside()

    def end(self) -> None:
        self._has_ended = True
        self.set_aside()


_current: ContextVar[_Turn | None] = ContextVar("turn", default=None)
