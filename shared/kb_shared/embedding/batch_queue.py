"""Collects texts that wait to be embedded, of all documents in work, into batches that fill a request.

A text that two callers want is asked for once. A text whose last caller leaves while it waits is not asked for.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from kb_shared.embedding.pace import Pace
from kb_shared.embedding.purchases import Purpose
from kb_shared.embedding.sub_batches import MAX_CHARACTERS, sub_batches
from kb_shared.mongo.vector import Vector


@dataclass(frozen=True, slots=True)
class Delivered:
    vector: Vector
    charged: bool
    """False if another purchase of the same vector was stored first."""


@dataclass(slots=True, eq=False)
class Wanted:
    """A text on its way to its vector."""

    chunk_hash: str
    text: str
    purpose: Purpose
    """Purpose of the first caller, who pays."""
    nano_usd: int
    """The price of its embedding; 0 where no price is known."""
    delivery: "asyncio.Future[Delivered]"
    waiting: int = 0
    """Callers that still want it."""


class BatchQueue:
    """Collects texts of one organization, vector space and lifetime into batches."""

    def __init__(
        self, buy: Callable[[Sequence[Wanted]], Coroutine[Any, Any, None]], *, pace: Pace, patience_s: float
    ) -> None:
        """Begin empty.

        Args:
            buy: sets the delivery of each text of a batch. Never cancelled: once asked, the provider is paid.
            pace: of the provider: how large a batch is, and how many are under way.
            patience_s: how long a text may wait for others to fill its batch.
        """
        self._buy = buy
        self._pace = pace
        self._patience_s = patience_s
        self._wanted: dict[str, Wanted] = {}
        self._queue: dict[str, Wanted] = {}
        self._characters = 0
        self._buying: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_overdue = False

    @property
    def idle(self) -> bool:
        return not self._wanted

    def want(self, chunk_hash: str, text: str, purpose: Purpose, *, nano_usd: int) -> tuple[Wanted, bool]:
        """Queue the text, or join the callers that want it already. Call `leave` when it is no longer wanted.

        Returns:
            The text on its way, and whether this caller was the first to want it.
        """
        wanted = self._wanted.get(chunk_hash)
        is_first = wanted is None
        if wanted is None:
            wanted = Wanted(chunk_hash, text, purpose, nano_usd, asyncio.get_running_loop().create_future())
            self._wanted[chunk_hash] = self._queue[chunk_hash] = wanted
            self._characters += len(text)
        wanted.waiting += 1
        return wanted, is_first

    def leave(self, wanted: Wanted) -> bool:
        """Note that one caller has its vector or needs it no more; return whether the provider was asked for it.

        A text without a waiting caller is not asked for.
        """
        wanted.waiting -= 1
        if self._queue.get(wanted.chunk_hash) is not wanted:
            return True
        if wanted.waiting == 0:
            self._unqueue(wanted)
            del self._wanted[wanted.chunk_hash]
        return False

    def is_under_way(self, wanted: Wanted) -> bool:
        """Return whether the text is being asked for, or will be for other callers, and has no answer yet."""
        return self._wanted.get(wanted.chunk_hash) is wanted and not wanted.delivery.done()

    def send(self) -> None:
        """Send full batches now, and the rest after `patience_s`."""
        while self._queue and self._may_send():
            self._send_one()
        if self._queue and self._timer is None and not self._is_overdue:
            self._timer = asyncio.get_running_loop().call_later(self._patience_s, self._send_overdue)

    async def finish(self) -> None:
        """Wait until nothing is under way."""
        while self._buying:
            await asyncio.wait(self._buying)

    def _may_send(self) -> bool:
        if len(self._queue) >= self._pace.texts or self._characters > MAX_CHARACTERS:
            return len(self._buying) < self._pace.at_once
        return self._is_overdue and len(self._buying) < self._pace.partial_at_once

    def _send_one(self) -> None:
        texts = ((chunk_hash, wanted.text) for chunk_hash, wanted in self._queue.items())
        batch = [self._queue[chunk_hash] for chunk_hash in next(sub_batches(texts, max_texts=self._pace.texts))]
        for wanted in batch:
            self._unqueue(wanted)
        # The remaining texts have not waited for long.
        self._is_overdue = False
        buying = asyncio.create_task(self._buy(batch))
        self._buying.add(buying)
        buying.add_done_callback(lambda task: self._end_batch(task, batch))

    def _unqueue(self, wanted: Wanted) -> None:
        del self._queue[wanted.chunk_hash]
        self._characters -= len(wanted.text)
        if not self._queue and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_batch(self, buying: "asyncio.Task[None]", batch: Sequence[Wanted]) -> None:
        self._buying.discard(buying)
        for wanted in batch:
            del self._wanted[wanted.chunk_hash]
        self.send()

    def _send_overdue(self) -> None:
        self._timer = None
        self._is_overdue = True
        self.send()
