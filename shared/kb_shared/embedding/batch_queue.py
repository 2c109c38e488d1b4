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
from kb_shared.observability.tracing import TraceSpan, current_span


@dataclass(frozen=True, slots=True)
class Delivered:
    vector: Vector
    charged: bool
    """False if another purchase of the same vector was stored first."""


@dataclass(slots=True, eq=False)
class PendingText:
    """Text that waits for its vector."""

    chunk_hash: str
    text: str
    purpose: Purpose
    """Purpose of the first caller, who pays."""
    nano_usd: int
    """Price of its embedding; 0 if no price is known."""
    delivery: "asyncio.Future[Delivered]"
    span: TraceSpan | None
    """Span of the first caller, in whose trace it is embedded."""
    waiting: int = 0
    """Number of callers that still wait for it."""


class BatchQueue:
    """Collects texts of one organization, vector space and lifetime into batches."""

    def __init__(
        self, buy: Callable[[Sequence[PendingText]], Coroutine[Any, Any, None]], *, pace: Pace, patience_s: float
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
        self._pending: dict[str, PendingText] = {}
        self._queue: dict[str, PendingText] = {}
        self._characters = 0
        self._buying: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_overdue = False

    @property
    def idle(self) -> bool:
        return not self._pending

    def add_text(self, chunk_hash: str, text: str, purpose: Purpose, *, nano_usd: int) -> tuple[PendingText, bool]:
        """Queue the text, or join the callers that wait for it already. Call `leave` when it is no longer needed.

        Returns:
            The text on its way, and whether this caller is the first one.
        """
        pending = self._pending.get(chunk_hash)
        is_first = pending is None
        if pending is None:
            delivery = asyncio.get_running_loop().create_future()
            pending = PendingText(chunk_hash, text, purpose, nano_usd, delivery, current_span())
            self._pending[chunk_hash] = self._queue[chunk_hash] = pending
            self._characters += len(text)
        pending.waiting += 1
        return pending, is_first

    def leave(self, pending: PendingText) -> bool:
        """Note that one caller has its vector or needs it no more; return whether the provider was asked for it.

        A text without a waiting caller is not asked for.
        """
        pending.waiting -= 1
        if self._queue.get(pending.chunk_hash) is not pending:
            return True
        if pending.waiting == 0:
            self._unqueue(pending)
            del self._pending[pending.chunk_hash]
        return False

    def is_under_way(self, pending: PendingText) -> bool:
        """Return whether the text is being asked for, or will be for other callers, and has no answer yet."""
        return self._pending.get(pending.chunk_hash) is pending and not pending.delivery.done()

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
        texts = ((chunk_hash, pending.text) for chunk_hash, pending in self._queue.items())
        batch = [self._queue[chunk_hash] for chunk_hash in next(sub_batches(texts, max_texts=self._pace.texts))]
        for pending in batch:
            self._unqueue(pending)
        # The remaining texts have not waited for long.
        self._is_overdue = False
        buying = asyncio.create_task(self._buy(batch))
        self._buying.add(buying)
        buying.add_done_callback(lambda task: self._end_batch(task, batch))

    def _unqueue(self, pending: PendingText) -> None:
        del self._queue[pending.chunk_hash]
        self._characters -= len(pending.text)
        if not self._queue and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_batch(self, buying: "asyncio.Task[None]", batch: Sequence[PendingText]) -> None:
        self._buying.discard(buying)
        for pending in batch:
            del self._pending[pending.chunk_hash]
        self.send()

    def _send_overdue(self) -> None:
        self._timer = None
        self._is_overdue = True
        self.send()
