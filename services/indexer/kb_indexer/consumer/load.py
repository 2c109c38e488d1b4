"""Limits how much is in work at once in this process, by how long it takes compared with the time it may take.

With too little CPU, here or in MongoDB, more work at once keeps each transaction open for longer, until none commits in
time and all are rolled back and repeated. With a lower limit each one commits at the first attempt.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from kb_shared.concurrency.adaptive_limit import AdaptiveLimit
from kb_shared.errors import TimedOut, WriteConflicts
from kb_shared.mongo.database import COMMAND_WITHIN_S, Database
from kb_shared.observability.metrics import INDEXING_IN_FLIGHT_LIMIT

FIRST: Final = 2
"""Documents at once in a process that knows nothing yet; doubled by each round that ends soon."""
FIRST_WHEN_QUICK: Final = 32
"""Documents at once in a new process whose pings MongoDB answers within `QUICK_PING_S` each."""
PINGS: Final = 5
QUICK_PING_S: Final = 0.01
EVENTS_FOR_A_DOCUMENT: Final = 8
"""Number of events in flight for each document: an event is little work and much waiting, and events that ask MongoDB
together cost less each."""
LONGEST_BATCH_S: Final = 1.0
"""Time after which other events no longer wait for the end of a batch: one with a large text takes long."""
_SHARPEST: Final = 0.125
_GENTLEST_OF_DOCUMENTS: Final = 0.8
"""Factor for a small delay. Fewer documents at once share fewer commands: half of them have two thirds of the
throughput."""
_GENTLEST_OF_EVENTS: Final = 0.5
_SHARE_OF_LIFETIME: Final = 0.125
"""Share of a transaction's time limit that swaps aim at: documents differ in size, and other processes write, too."""
_SHARE_OF_DEADLINE: Final = 0.25
"""Share of a command's deadline that an event aims at: it takes several commands, each with its own deadline."""

log = structlog.get_logger()


class Load:
    """Limits one kind of work in a process. The limit is at least one and at most the configured number."""

    def __init__(self, work: str, *, first: int, most: int, aim_s: float, gentlest_decrease: float) -> None:
        """Begin with `first`; work that takes longer than `aim_s` lowers the limit."""
        self.in_flight = 0
        self.ended = 0
        """Number of ended pieces of work, failed ones included."""
        self._all_ended = asyncio.Event()
        self._work = work
        self._limit = AdaptiveLimit(
            first=first,
            most=most,
            aim_s=aim_s,
            doubling=True,
            sharpest_decrease=_SHARPEST,
            gentlest_decrease=gentlest_decrease,
        )
        INDEXING_IN_FLIGHT_LIMIT.labels(work).set(self._limit.value)

    def limit(self) -> int:
        """Return how much may be worked on now."""
        return self._limit.value

    @property
    def is_used(self) -> bool:
        """Say whether at least half of the limit is in use; one organization alone may not use all of it."""
        return 2 * self.in_flight >= self._limit.value

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count the work of the block as in flight, and lower the limit if MongoDB does not answer it in time."""
        self.in_flight += 1
        try:
            with self.noticing_overload():
                yield
        finally:
            self.in_flight -= 1
            self.ended += 1
            if not self.in_flight:
                self._all_ended.set()
                self._all_ended = asyncio.Event()

    async def until_all_ended(self, *, within_s: float) -> None:
        """Return when nothing is in flight for the first time, or after `within_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._all_ended.wait()

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Adapt the limit to the duration of the work in the block, beside all that is in flight."""
        before = self._limit.decreases
        clock = asyncio.get_running_loop().time
        began = clock()
        with self.noticing_overload():
            yield
        seconds = clock() - began
        with self._log_changes("slow", seconds=round(seconds, 2)):
            self._limit.ended(seconds=seconds, begun_after=before, may_grow=self.is_used)

    def lease_ran_out(self) -> None:
        """Lower the limit because a lease could not be extended in time: this process or MongoDB is overloaded."""
        with self._log_changes("lease_ran_out"):
            self._limit.failed()

    @contextmanager
    def noticing_overload(self) -> Iterator[None]:
        """Lower the limit if MongoDB does not answer in time, once for all that began under the same limit."""
        before = self._limit.decreases
        try:
            yield
        except TimedOut:
            with self._log_changes("timed_out"):
                self._limit.failed(begun_after=before)
            raise
        except WriteConflicts:
            with self._log_changes("write_conflicts"):
                self._limit.failed(begun_after=before)
            raise

    @contextmanager
    def _log_changes(self, cause: str, **details: float) -> Iterator[None]:
        before = self._limit.value
        yield
        after = self._limit.value
        if after != before:
            INDEXING_IN_FLIGHT_LIMIT.labels(self._work).set(after)
        if after < before:
            log.warning("load.lowered", work=self._work, cause=cause, limit=after, **details)


class EventThrottle:
    """Limits the events in flight, and decides when they begin, so that waiting documents keep most of the CPU."""

    def __init__(self, *, events: Load, documents: Load) -> None:
        self.events = events
        self._documents = documents
        self._documents_seen = 0
        self._may_have_ended = 0
        """Value that `events.ended` has when all events that may be in flight have ended."""

    def limit(self) -> int:
        """Return how many may be in flight now: at least one, so that its end asks again."""
        unbounded = self.events.ended + self.events.limit()
        if self._documents.is_used:
            # One for each document that ended: under overload, more would only make the backlog longer.
            more = self._documents.ended - self._documents_seen
            self._may_have_ended = min(unbounded, self._may_have_ended + more)
        else:
            self._may_have_ended = unbounded
        self._documents_seen = self._documents.ended
        return max(1, self._may_have_ended - self.events.ended)

    async def until_next_batch(self) -> None:
        """Wait until the events in flight have ended, while documents wait.

        Events that arrive meanwhile begin together and share their commands; alone, each costs several times as much.
        """
        if self._documents.is_used and self.events.in_flight:
            await self.events.until_all_ended(within_s=LONGEST_BATCH_S)


async def first_documents(database: Database) -> int:
    """Return how many documents a process may begin with, by how quickly MongoDB answers now."""
    try:
        # The first may have to connect.
        longest_s = max([await _ping_s(database) for _ in range(1 + PINGS)][1:])
    except PyMongoError:
        return FIRST
    return FIRST_WHEN_QUICK if longest_s <= QUICK_PING_S else FIRST


async def _ping_s(database: Database) -> float:
    began = perf_counter()
    await database.command("ping")
    return perf_counter() - began


def load_of_documents(*, most: int, lifetime_s: float, first: int = FIRST) -> Load:
    """Make the load of documents, which is learnt from their swaps; `lifetime_s` is of a transaction."""
    return Load(
        "documents",
        first=first,
        most=most,
        aim_s=lifetime_s * _SHARE_OF_LIFETIME,
        gentlest_decrease=_GENTLEST_OF_DOCUMENTS,
    )


def load_of_events(*, most: int, first: int = FIRST) -> Load:
    """Make the load of document events, for one of documents that begins with `first` and is of `most` at most."""
    first, most = first * EVENTS_FOR_A_DOCUMENT, most * EVENTS_FOR_A_DOCUMENT
    return Load(
        "events",
        first=first,
        most=most,
        aim_s=COMMAND_WITHIN_S * _SHARE_OF_DEADLINE,
        gentlest_decrease=_GENTLEST_OF_EVENTS,
    )
