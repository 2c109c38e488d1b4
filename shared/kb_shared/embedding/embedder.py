"""The only way to a vector: taken from the cache if it was ever paid for, else generated, stored and charged.

Documents at work on at the same time are served together: one look-up in the cache, and requests to the provider that
hold texts of all of them.
"""

import asyncio
import hashlib
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, TypeAlias

import stamina

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.embedding.batch_queue import BatchQueue, Delivered, Wanted
from kb_shared.embedding.calls_under_way import CallsUnderWay
from kb_shared.embedding.known_vectors import KnownVectors
from kb_shared.embedding.models import InputType, Model
from kb_shared.embedding.organization_models import OrganizationModels
from kb_shared.embedding.pace import GATHERED_FOR_S, Pace
from kb_shared.embedding.provider import Provider
from kb_shared.embedding.purchases import Bought, Purchase, Purpose, keep
from kb_shared.embedding.splitting import ask_in_parts
from kb_shared.errors import ProviderUnavailable
from kb_shared.failpoints import reach
from kb_shared.metering.budget import SpendAllowance, Spending
from kb_shared.mongo.circuits import CircuitId
from kb_shared.mongo.database import Database
from kb_shared.mongo.embedding_cache import VectorSpace
from kb_shared.mongo.rate_limits import Bucket
from kb_shared.mongo.vector import Vector
from kb_shared.observability.metrics import EMBEDDING_CACHE_HITS, EMBEDDING_CACHE_MISSES
from kb_shared.providers.access import Access
from kb_shared.providers.circuit_breaker import CircuitBreaker
from kb_shared.providers.rate_limiter import RateLimiter
from kb_shared.providers.retry_policy import RetryPolicy

SHORT_LIFETIME: Final = timedelta(days=7)
"""Lifetime of vectors of queries, which seldom repeat, and of dimension probes, to notice a changed provider."""
LIFETIME: Final = timedelta(days=90)
"""Lifetime of all other vectors, from their last use."""
QUERIES: Final = "queries/"
"""Before the model's name in circuits: what documents do to a provider refuses no query."""
MAX_PACES: Final = 1_000

BeforePaying: TypeAlias = Callable[[], Awaitable[None]]

_PROBE: Final = "How many dimensions does a vector of this model have?"


@dataclass(frozen=True, slots=True)
class Embedded:
    vectors: list[Vector]
    """float32 and read-only, in the order of the texts."""
    generated: int
    """Vectors this call generated and stored: what it was charged for, in SPUs."""
    cached: int
    """Other distinct texts: their vectors were paid for before."""
    found: int
    """Distinct texts whose vectors the cache had: nobody was asked, and nobody waited for."""


@dataclass(frozen=True, slots=True)
class _Order:
    """Holds what all texts of a request to a provider have in common."""

    organization_id: str
    space: VectorSpace
    access: Access | None
    """Part of it, so that a key that was changed is not used on."""
    input_type: InputType
    short_lived: bool

    @property
    def dimensions(self) -> int | None:
        """None: as many as the model gives when it is not told."""
        return self.space.dimensions or None

    @property
    def lifetime(self) -> timedelta:
        return SHORT_LIFETIME if self.short_lived else LIFETIME

    @property
    def kept_for(self) -> timedelta | None:
        """By another use; what is short-lived is so from its purchase on."""
        return None if self.short_lived else LIFETIME


class Embedder:
    """Embeds texts for all organizations."""

    def __init__(
        self,
        database: Database,
        provider: Provider,
        models: OrganizationModels,
        *,
        spending: Spending,
        circuits: CircuitBreaker,
        limiter: RateLimiter,
        cache_scope: Literal["organization", "global"],
        patience_s: float = 15.0,
    ) -> None:
        """Wire it.

        Args:
            database: that holds cache, ledger and outbox.
            provider: asked for what the cache lacks.
            models: by organization, and by the names users give.
            spending: keeps organizations within their budgets.
            circuits: keep an organization away from a provider that is out for it.
            limiter: keeps all replicas within the limits of a KB and of a model.
            cache_scope: whether organizations share what any of them paid for.
            patience_s: for how long a sub-batch is tried again in place while its provider is unavailable.
        """
        self._database = database
        self._provider = provider
        self.models = models
        self._spending = spending
        self._circuits = circuits
        self._limiter = limiter
        self._cache_scope = cache_scope
        self._patience_s = patience_s
        self._known = KnownVectors(database)
        self._queues: dict[_Order, BatchQueue] = {}
        self._calls = CallsUnderWay()
        self._paces: BoundedCache[CircuitId, Pace] = BoundedCache(MAX_PACES)

    async def embed(
        self,
        texts: Sequence[str],
        *,
        model: str,
        dimensions: int,
        purpose: Purpose,
        rate_limits: Mapping[str, int] | None = None,
        allowance: SpendAllowance | None = None,
        before_paying: BeforePaying | None = None,
    ) -> Embedded:
        """Return one vector per text.

        When it raises, the sub-batches that were answered are stored and charged: calling again pays for the rest.

        Args:
            texts: any number, none of them empty, valid Unicode; equal ones are embedded once.
            model: a name of the catalogue.
            dimensions: of the vectors; sent to the provider where they are not the model's own.
            purpose: who pays, and what for.
            rate_limits: `requests_per_minute` and `tokens_per_minute` of the KB, where it has any.
            room: of the work that this call is a part of; without it the call is all the work there is.
            before_paying: awaited if not all vectors are there; what it raises is raised, and nothing is paid.

        Raises:
            UnknownModel, ProviderKeyMissing: before anything is paid.
            BudgetExhausted, UnknownPrice: likewise.
            ProviderUnavailable: after some seconds of trying again.
            ProviderKeyRefused: the key is wrong or used up; sound work waits.
            ProviderRefused: trying again changes nothing.
            Parked: a limit is used up for longer than the patience, or the provider is known to be out.
            TransientError: answers could not be stored.
        """
        reached = await self.models.get(purpose.organization_id, model)
        return await self._fill(
            texts,
            reached,
            dimensions,
            purpose,
            bucket=_bucket_of_kb(purpose, rate_limits),
            allowance=allowance,
            before_paying=before_paying,
        )

    async def check_available(
        self, *, model: str, purpose: Purpose, rate_limits: Mapping[str, int] | None = None, allowance: SpendAllowance
    ) -> None:
        """Raise what `embed` would for a text that is not in the cache, as far as that is known without asking.

        Cheap beside the work that comes before `embed`: for what could not be embedded before.

        Raises:
            UnknownModel, ProviderKeyMissing, UnknownPrice, Parked: as `embed` does.
        """
        reached = await self.models.get(purpose.organization_id, model)
        await self._circuits.check_available(_circuit_of(purpose.organization_id, reached, purpose.input_type))
        for bucket in (_bucket_of_kb(purpose, rate_limits), _bucket_of_model(purpose.organization_id, reached)):
            if bucket is not None:
                await self._limiter.check_available(bucket, patience_s=self._patience_s)
        await allowance.reserve(1, nano_usd=reached.nano_usd(1))

    async def detect_dimensions(self, *, model: str, purpose: Purpose) -> int:
        """Ask the model for one vector and return its length.

        Stored and charged as any other vector, but kept for seven days only and in a space of its own (0 dimensions),
        because the real number is not known when the cache is asked. Raises what `embed` raises.
        """
        reached = await self.models.get(purpose.organization_id, model)
        # Also where the vector is in the cache: what is detected now is paid for later.
        await self._spending.check_price(purpose.organization_id, known=reached.price is not None)
        embedded = await self._fill([_PROBE], reached, None, purpose)
        return len(embedded.vectors[0])

    def allowance(self, organization_id: str) -> AbstractAsyncContextManager[SpendAllowance]:
        """Room in the budget for work that needs several calls, so that it does not end in their middle."""
        return self._spending.allowance(organization_id)

    def give_up(self, kb_id: str) -> None:
        """Cancel the calls for a KB that was deleted, where nobody waits for them: neither in it nor in another KB."""
        self._calls.give_up(kb_id)

    async def close(self) -> None:
        """Wait until all that was paid for is stored, then close the provider's connections."""
        await asyncio.gather(*(queue.finish() for queue in self._queues.values()))
        await self._limiter.settle()
        await self._provider.close()

    async def _fill(
        self,
        texts: Sequence[str],
        model: Model,
        dimensions: int | None,
        purpose: Purpose,
        *,
        bucket: Bucket | None = None,
        allowance: SpendAllowance | None = None,
        before_paying: BeforePaying | None = None,
    ) -> Embedded:
        order = self._order(model, dimensions, purpose)
        hashes = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        distinct = dict(zip(hashes, texts, strict=True))
        vectors = await self._known.find(order.space, distinct, keep_for=order.kept_for)
        found = len(vectors)
        missing = {chunk_hash: text for chunk_hash, text in distinct.items() if chunk_hash not in vectors}
        if before_paying is not None and missing:
            await before_paying()
        if bucket is not None and missing:
            pace = self._pace(_circuit_of(purpose.organization_id, model, purpose.input_type), model)
            await self._take(bucket, missing.values(), texts_per_request=pace.texts)
        delivered: dict[str, Delivered] = {}
        if missing:
            async with (
                nullcontext(allowance)
                if allowance is not None
                else self.allowance(purpose.organization_id) as spendable
            ):
                delivered = await self._buy(missing, model, order, purpose, spendable)
        # Not before: whatever failed is asked for again, and is one text all the same.
        EMBEDDING_CACHE_HITS.labels(model.label).inc(found)
        vectors |= {chunk_hash: delivery.vector for chunk_hash, delivery in delivered.items()}
        if order.input_type == "query":
            self._known.remember(order.space, vectors)
        generated = sum(delivery.charged for delivery in delivered.values())
        return Embedded([vectors[chunk_hash] for chunk_hash in hashes], generated, len(distinct) - generated, found)

    def _order(self, model: Model, dimensions: int | None, purpose: Purpose) -> _Order:
        space = VectorSpace(
            # What an organization's own key pays for it shares with nobody.
            scope="global" if self._cache_scope == "global" and model.access is None else purpose.organization_id,
            provider_fingerprint=model.fingerprint,
            model=model.name,
            dimensions=dimensions or 0,
            input_type=purpose.input_type,
        )
        short_lived = purpose.short_lived or purpose.input_type == "query" or dimensions is None
        return _Order(purpose.organization_id, space, model.access, purpose.input_type, short_lived)

    async def _take(self, bucket: Bucket, texts: Collection[str], *, texts_per_request: int) -> None:
        requests = math.ceil(len(texts) / texts_per_request)
        await self._limiter.reserve(
            bucket, requests=requests, tokens=estimated_tokens(texts), patience_s=self._patience_s
        )

    async def _buy(
        self, missing: Mapping[str, str], model: Model, order: _Order, purpose: Purpose, allowance: SpendAllowance
    ) -> dict[str, Delivered]:
        """Have `missing` embedded, in requests shared with whoever wants something at the same time.

        Returns:
            The deliveries, by chunk hash; those that another call had asked for already count as not charged.
        """
        prices = {chunk_hash: model.nano_usd(estimated_tokens([text])) for chunk_hash, text in missing.items()}
        await allowance.reserve(len(missing), nano_usd=_sum(prices.values()))
        queue = self._queue(order, model)
        wanted = [
            queue.want(chunk_hash, text, purpose, nano_usd=prices[chunk_hash] or 0)
            for chunk_hash, text in missing.items()
        ]
        queue.send()
        try:
            await self._wait_for(wanted, queue)
        finally:
            self._forget_idle_queues()
            cost = [each.nano_usd for each, is_first in wanted if _may_cost(each, is_first, queue)]
            allowance.spend(len(cost), nano_usd=sum(cost))
        return {
            each.chunk_hash: Delivered(each.delivery.result().vector, _is_paid(each, is_first))
            for each, is_first in wanted
        }

    async def _wait_for(self, wanted: Sequence[tuple[Wanted, bool]], queue: BatchQueue) -> None:
        """Return when all is delivered; raise the first failure when nothing more is under way."""
        try:
            await asyncio.wait([each.delivery for each, _ in wanted], return_when=asyncio.FIRST_EXCEPTION)
        finally:
            # After a failure, or when the caller is gone, nothing more of this is begun.
            begun = [each.delivery for each, _ in wanted if queue.leave(each)]
        # What has been asked for is paid: the next attempt shall find it in the cache.
        await asyncio.wait(begun)
        for delivery in begun:
            delivery.result()

    def _queue(self, order: _Order, model: Model) -> BatchQueue:
        if order not in self._queues:
            patience_s = GATHERED_FOR_S if order.input_type == "document" else 0.0
            pace = self._pace(_circuit_of(order.organization_id, model, order.input_type), model)
            self._queues[order] = BatchQueue(
                lambda batch: self._deliver(batch, model, order), pace=pace, patience_s=patience_s
            )
        return self._queues[order]

    def _pace(self, circuit_id: CircuitId, model: Model) -> Pace:
        # Nobody gives up a model in this process, and the pieces of a document share work if they come together.
        deadline_s = math.inf if model.late_source is not None else self._provider.timeout_s
        pace = self._paces.find(circuit_id)
        if pace is None:
            pace = Pace(deadline_s=deadline_s)
            self._paces.put(circuit_id, pace)
        return pace

    def _forget_idle_queues(self) -> None:
        self._queues = {order: queue for order, queue in self._queues.items() if not queue.idle}

    async def _deliver(self, batch: Sequence[Wanted], model: Model, order: _Order) -> None:
        """Have a batch embedded, in parts where the provider refuses it; what goes wrong is told to those who wait."""
        by_hash = {wanted.chunk_hash: wanted for wanted in batch}

        async def ask(texts: Mapping[str, str]) -> Mapping[str, Vector]:
            return await self._purchase([by_hash[chunk_hash] for chunk_hash in texts], model, order)

        try:
            answers = await ask_in_parts({wanted.chunk_hash: wanted.text for wanted in batch}, ask)
        except Exception as error:  # noqa: BLE001  # it belongs to those who wait
            _fail(batch, error)
            return
        for chunk_hash, refusal in answers.refused.items():
            _fail([by_hash[chunk_hash]], refusal)

    async def _purchase(self, batch: Sequence[Wanted], model: Model, order: _Order) -> dict[str, Vector]:
        """Ask, store, charge and deliver; a part of the batch first where the provider is only probed."""
        while missing := [wanted for wanted in batch if not wanted.delivery.done()]:
            # Given up while it waits only: once it has answered, the answer is paid for.
            async with self._calls.call_for(missing):
                vectors = await self._ask([wanted.text for wanted in missing], model, order)
            await self._keep(missing[: len(vectors)], vectors, model, order)
        return {wanted.chunk_hash: wanted.delivery.result().vector for wanted in batch}

    async def _keep(self, batch: Sequence[Wanted], vectors: Sequence[Vector], model: Model, order: _Order) -> None:
        await reach("embed.after_answer")
        bought = [
            Bought(wanted.chunk_hash, vector, wanted.purpose, wanted.nano_usd)
            for wanted, vector in zip(batch, vectors, strict=True)
        ]
        charged = await keep(self._database, Purchase(bought, order.space, order.lifetime, model.label))
        EMBEDDING_CACHE_MISSES.labels(model.label).inc(len(bought))
        await reach("embed.after_store")
        for wanted, vector in zip(batch, vectors, strict=True):
            wanted.delivery.set_result(Delivered(vector, wanted.chunk_hash in charged))

    async def _ask(self, texts: Sequence[str], model: Model, order: _Order) -> list[Vector]:
        """Return the vectors of the first of `texts`: of all, unless the provider is only probed."""
        retry_policy = RetryPolicy(self._patience_s)

        def again(error: Exception) -> bool | float:
            # So many texts at once were too many; who wants them comes back, and they are asked for in smaller parts.
            return False if _timed_out(error) and len(texts) > 1 else retry_policy.decide(error)

        async for attempt in stamina.retry_context(
            on=again, attempts=None, timeout=self._patience_s, wait_max=4.0, wait_jitter=0.5
        ):
            with attempt:
                return await self._ask_once(texts, model, order)
        raise AssertionError("the last attempt returns or raises")

    async def _ask_once(self, texts: Sequence[str], model: Model, order: _Order) -> list[Vector]:
        bucket = _bucket_of_model(order.organization_id, model)
        circuit_id = _circuit_of(order.organization_id, model, order.input_type)
        pace = self._pace(circuit_id, model)
        try:
            async with self._circuits.guard(circuit_id) as admission:
                asked = texts[:1] if admission.probe else texts
                await self._limiter.reserve(bucket, tokens=estimated_tokens(asked), patience_s=self._patience_s)
                vectors, seconds = await self._embed_timed(asked, model, order, pace)
        except ProviderUnavailable as error:
            if error.error_type == "provider_429" and error.retry_after_s:
                # For every replica: the next one to ask would only be told the same.
                await self._limiter.close(bucket, error.retry_after_s)
            raise
        # After the circuit is closed: a request that the pace lets through during a probe would be refused.
        pace.answered(len(asked), seconds=seconds)
        return vectors

    async def _embed_timed(
        self, texts: Sequence[str], model: Model, order: _Order, pace: Pace
    ) -> tuple[list[Vector], float]:
        """Return the vectors and the seconds until the answer; tell `pace` if it came too late."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            vectors = await self._provider.embed(
                texts, model=model, dimensions=order.dimensions, input_type=order.input_type
            )
        except ProviderUnavailable as error:
            if _timed_out(error):
                pace.timed_out(len(texts))
            raise
        return vectors, clock() - began


def _circuit_of(organization_id: str, model: Model, input_type: InputType) -> CircuitId:
    return CircuitId(organization_id, model.fingerprint, (QUERIES if input_type == "query" else "") + model.name)


def _timed_out(error: Exception) -> bool:
    return isinstance(error, ProviderUnavailable) and error.error_type == "provider_timeout"


def _bucket_of_kb(purpose: Purpose, rate_limits: Mapping[str, int] | None) -> Bucket | None:
    if not rate_limits or purpose.kb_id is None:
        return None
    return Bucket.of_knowledge_base(purpose.organization_id, purpose.kb_id, rate_limits)


def _bucket_of_model(organization_id: str, model: Model) -> Bucket:
    access = model.access
    return Bucket.of_model(
        organization_id,
        model.name,
        requests_per_minute=access.requests_per_minute if access else None,
        tokens_per_minute=access.tokens_per_minute if access else None,
    )


def _is_paid(wanted: Wanted, is_first: bool) -> bool:
    """Return whether this caller's purchase of it was stored and charged."""
    delivery = wanted.delivery
    return is_first and delivery.done() and delivery.exception() is None and delivery.result().charged


def _may_cost(wanted: Wanted, is_first: bool, queue: BatchQueue) -> bool:
    """Return whether this caller's purchase was charged, or will be although the caller is gone."""
    return _is_paid(wanted, is_first) or (is_first and queue.is_under_way(wanted))


def _sum(prices: Iterable[int | None]) -> int | None:
    """None if one of them is not known."""
    known = list(prices)
    return None if None in known else sum(each or 0 for each in known)


def estimated_tokens(texts: Iterable[str]) -> int:
    """For limits, before the provider has counted: rather too many, since a token of English has four bytes."""
    return sum(len(text.encode()) // 3 + 1 for text in texts)


def _fail(batch: Iterable[Wanted], error: Exception) -> None:
    for wanted in batch:
        if not wanted.delivery.done():
            wanted.delivery.set_exception(error)
            # Looked at, in case that nobody waits any more.
            wanted.delivery.exception()
