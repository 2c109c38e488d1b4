"""Tells the event streams of a process when their organizations have new events: one query serves all of them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_api.outcome_events import event_log
from kb_shared.concurrency.work_signal import PollPause, WorkSignal
from kb_shared.errors import RequestError, TransientError
from kb_shared.mongo.database import Database
from kb_shared.observability.log_limit import LogLimit
from kb_shared.observability.metrics import EVENT_STREAMS

_PAUSE_S: Final = 0.5
"""Pause between two queries while events come. Change streams end it."""
RETRY_AFTER_S: Final = 10.0

log = structlog.get_logger()


@dataclass(slots=True)
class _Followed:
    """An organization with streams in this process."""

    streams: int = 0
    last: int = 0
    """Last position as far as known."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced, when `last` rises."""


class EventFeed:
    """Watches the positions of the organizations that have streams; one per process."""

    def __init__(self, database: Database, *, streams_of_key: int) -> None:
        """Describe the feed; a key may have `streams_of_key` streams in this process."""
        self.signal = WorkSignal()
        self.is_closed = False
        """True if the process is about to end: streams end, too, and their clients connect to another one."""
        self._database = database
        self._streams_of_key = streams_of_key
        self._streams: dict[str, int] = {}
        self._followed: dict[str, _Followed] = {}
        self._pause = PollPause(self.signal, shortest_s=_PAUSE_S)
        self._limit = LogLimit()

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop`, then end all streams."""
        self._count_streams()
        stopping = asyncio.create_task(self._close_at(stop))
        try:
            while not stop.is_set():
                began = monotonic()
                found = await self._look()
                await self._pause.after_poll(found=found, poll_took_s=monotonic() - began)
        finally:
            stopping.cancel()
            self._close()

    def _count_streams(self) -> None:
        EVENT_STREAMS.set(sum(self._streams.values()))

    @contextmanager
    def follow(self, organization_id: str, *, key_id: str) -> Iterator[None]:
        """Count a stream inside the context. Raises RequestError 429 if its key has too many."""
        if self._streams.get(key_id, 0) >= self._streams_of_key:
            detail = (
                f"This key follows events with {self._streams_of_key} connections, which is the limit; close one of "
                f"them, or try again in {RETRY_AFTER_S:g} s."
            )
            raise RequestError(429, "too-many-at-once", detail, retry_after_s=RETRY_AFTER_S)
        self._streams[key_id] = self._streams.get(key_id, 0) + 1
        followed = self._followed.setdefault(organization_id, _Followed())
        followed.streams += 1
        self._count_streams()
        # Its position may have risen since it was last looked at, which may have been never.
        self.signal.wake()
        try:
            yield
        finally:
            self._streams[key_id] -= 1
            if not self._streams[key_id]:
                del self._streams[key_id]
            self._count_streams()
            followed.streams -= 1
            if not followed.streams:
                del self._followed[organization_id]

    async def wait(self, organization_id: str, *, after: int, longest_s: float) -> bool:
        """Wait until the organization has an event after this position; False after `longest_s`, or when it closes."""
        followed = self._followed[organization_id]
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                while followed.last <= after and not self.is_closed:
                    await followed.news.wait()
        return followed.last > after

    async def _close_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._close()
        self.signal.wake()

    def _close(self) -> None:
        self.is_closed = True
        for followed in self._followed.values():
            followed.news.set()

    async def _look(self) -> bool:
        """Look for new positions; return whether there are any."""
        if not self._followed:
            return False
        try:
            lasts = await event_log.find_last_positions(self._database, list(self._followed))
        except (PyMongoError, TransientError) as error:
            reason = type(error).__name__
            if (left_out := self._limit.admit(reason)) is not None:
                log.warning("event_feed.interrupted", error=reason, left_out=left_out)
            return False
        found = False
        for organization_id, last in lasts.items():
            # A stream may have ended meanwhile.
            if (followed := self._followed.get(organization_id)) is not None and last > followed.last:
                followed.last = last
                followed.news.set()
                followed.news = asyncio.Event()
                found = True
        return found
