"""Buys vectors: concurrent callers share requests to the provider, and each answer is stored and charged."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.embedding.batch_key import BatchKey
from kb_shared.embedding.batch_queue import BatchQueue, Delivered, PendingText
from kb_shared.embedding.guarded_provider import GuardedProvider, estimate_text_tokens
from kb_shared.embedding.in_flight_calls import InFlightCalls
from kb_shared.embedding.models import EmbeddingModel
from kb_shared.embedding.pace import GATHERED_FOR_S
from kb_shared.embedding.purchases import BoughtVector, Purchase, Purpose, store_purchase
from kb_shared.embedding.splitting import ask_in_parts
from kb_shared.failpoints import reach
from kb_shared.metering.budget import SpendAllowance
from kb_shared.mongo.database import Database
from kb_shared.mongo.vector import Vector
from kb_shared.observability import spans, tracing
from kb_shared.observability.metrics import EMBEDDING_CACHE_MISSES


class VectorBuyer:
    """Buys vectors for all organizations. One for a process."""

    def __init__(self, database: Database, provider: GuardedProvider) -> None:
        self._database = database
        self._provider = provider
        self._queues: dict[BatchKey, BatchQueue] = {}
        self._calls = InFlightCalls()

    async def buy(
        self,
        missing: Mapping[str, str],
        model: EmbeddingModel,
        key: BatchKey,
        *,
        purpose: Purpose,
        allowance: SpendAllowance,
        on_missing: Callable[[int], None] | None = None,
    ) -> dict[str, Delivered]:
        """Have `missing` embedded, in requests shared with all callers that want something at the same time.

        Args:
            missing: texts that are not in the cache, by chunk hash.
            model: of the organization.
            key: of these texts.
            purpose: who pays, and what for.
            allowance: pays for them.
            on_missing: called with the number of those that are still missing, after each answer.

        Returns:
            The deliveries, by chunk hash; those that another call had asked for already count as not charged.
        """
        prices = {chunk_hash: model.nano_usd(estimate_text_tokens([text])) for chunk_hash, text in missing.items()}
        await allowance.reserve(len(missing), nano_usd=_sum(prices.values()))
        queue = self._queue(key, model)
        pending = [
            queue.add_text(chunk_hash, text, purpose, nano_usd=prices[chunk_hash] or 0)
            for chunk_hash, text in missing.items()
        ]
        if on_missing is not None:
            _count_down([each.delivery for each, _ in pending], on_missing)
        queue.send()
        try:
            await self._wait_for(pending, queue)
        finally:
            self._forget_idle_queues()
            cost = [each.nano_usd for each, is_first in pending if _may_cost(each, is_first, queue)]
            allowance.spend(len(cost), nano_usd=sum(cost))
        return {
            each.chunk_hash: Delivered(each.delivery.result().vector, _is_paid(each, is_first))
            for each, is_first in pending
        }

    def cancel_calls(self, kb_id: str) -> None:
        """Cancel the calls for a deleted KB, except those whose texts another caller or KB waits for."""
        self._calls.cancel_calls(kb_id)

    async def finish(self) -> None:
        """Wait until no purchase is under way."""
        await run_all(queue.finish() for queue in self._queues.values())

    async def _wait_for(self, pending: Sequence[tuple[PendingText, bool]], queue: BatchQueue) -> None:
        """Return when all is delivered; raise the first failure when nothing more is under way."""
        try:
            await asyncio.wait([each.delivery for each, _ in pending], return_when=asyncio.FIRST_EXCEPTION)
        finally:
            # After a failure, or when the caller is gone, nothing more of this is begun.
            begun = [each.delivery for each, _ in pending if queue.leave(each)]
        # Texts that the provider was asked for are paid for: the next attempt finds them in the cache.
        await asyncio.wait(begun)
        for delivery in begun:
            delivery.result()

    def _queue(self, key: BatchKey, model: EmbeddingModel) -> BatchQueue:
        if key not in self._queues:
            patience_s = GATHERED_FOR_S if key.input_type == "document" else 0.0
            self._queues[key] = BatchQueue(
                lambda batch: self._deliver(batch, model, key),
                pace=self._provider.pace(key.organization_id, model, key.input_type),
                patience_s=patience_s,
            )
        return self._queues[key]

    def _forget_idle_queues(self) -> None:
        self._queues = {key: queue for key, queue in self._queues.items() if not queue.idle}

    async def _deliver(self, batch: Sequence[PendingText], model: EmbeddingModel, key: BatchKey) -> None:
        """Have a batch embedded, in parts where the provider refuses it; its waiting callers get the errors."""
        by_hash = {pending.chunk_hash: pending for pending in batch}

        async def ask(texts: Mapping[str, str]) -> Mapping[str, Vector]:
            return await self._purchase([by_hash[chunk_hash] for chunk_hash in texts], model, key)

        try:
            with tracing.within(batch[0].span), _batch_span(batch, model):
                answers = await ask_in_parts({pending.chunk_hash: pending.text for pending in batch}, ask)
        except Exception as error:  # noqa: BLE001  # it belongs to those who wait
            _fail(batch, error)
            return
        for chunk_hash, refusal in answers.refused.items():
            _fail([by_hash[chunk_hash]], refusal)

    async def _purchase(self, batch: Sequence[PendingText], model: EmbeddingModel, key: BatchKey) -> dict[str, Vector]:
        """Ask, store, charge and deliver; a part of the batch first where the provider is only probed."""
        while missing := [pending for pending in batch if not pending.delivery.done()]:
            # Given up while it waits only: once it has answered, the answer is paid for.
            async with self._calls.call_for(missing):
                vectors = await self._provider.embed([pending.text for pending in missing], model, key)
            await self._store(missing[: len(vectors)], vectors, model=model, key=key)
        return {pending.chunk_hash: pending.delivery.result().vector for pending in batch}

    async def _store(
        self, batch: Sequence[PendingText], vectors: Sequence[Vector], *, model: EmbeddingModel, key: BatchKey
    ) -> None:
        await reach("embed.after_answer")
        bought = [
            BoughtVector(pending.chunk_hash, vector, pending.purpose, pending.nano_usd)
            for pending, vector in zip(batch, vectors, strict=True)
        ]
        with tracing.span(spans.STORE_VECTORS, {"kb.texts": len(bought)}) as span:
            charged = await store_purchase(self._database, Purchase(bought, key.space, key.lifetime, model.label))
            span.set({"kb.embeddings": len(charged)})
        EMBEDDING_CACHE_MISSES.labels(model.label).inc(len(bought))
        await reach("embed.after_store")
        for pending, vector in zip(batch, vectors, strict=True):
            pending.delivery.set_result(Delivered(vector, pending.chunk_hash in charged))


def _count_down(deliveries: Sequence["asyncio.Future[Delivered]"], on_missing: Callable[[int], None]) -> None:
    """Call `on_missing` after each delivery with the number of those that are still to come."""
    missing = len(deliveries)

    def note(delivery: "asyncio.Future[Delivered]") -> None:
        nonlocal missing
        if not delivery.cancelled() and delivery.exception() is None:
            missing -= 1
            on_missing(missing)

    for delivery in deliveries:
        delivery.add_done_callback(note)


def _batch_span(batch: Sequence[PendingText], model: EmbeddingModel) -> tracing.TraceSpan:
    first, *others = dict.fromkeys(pending.span for pending in batch)
    return tracing.span(
        spans.EMBED_BATCH,
        {"gen_ai.request.model": model.name, "kb.texts": len(batch)},
        links=[span for span in others if span is not None and span is not first],
    )


def _is_paid(pending: PendingText, is_first: bool) -> bool:
    """Return whether this caller's purchase of it was stored and charged."""
    delivery = pending.delivery
    return is_first and delivery.done() and delivery.exception() is None and delivery.result().charged


def _may_cost(pending: PendingText, is_first: bool, queue: BatchQueue) -> bool:
    """Return whether this caller's purchase was charged, or will be although the caller is gone."""
    return _is_paid(pending, is_first) or (is_first and queue.is_under_way(pending))


def _sum(prices: Iterable[int | None]) -> int | None:
    """Return the sum; None if one of the prices is not known."""
    known = list(prices)
    return None if None in known else sum(each or 0 for each in known)


def _fail(batch: Iterable[PendingText], error: Exception) -> None:
    for pending in batch:
        if not pending.delivery.done():
            pending.delivery.set_exception(error)
            # Read it, so that asyncio does not log it when no caller waits any more.
            pending.delivery.exception()
