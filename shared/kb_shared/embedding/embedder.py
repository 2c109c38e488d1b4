"""The only way to a vector: taken from the cache if it was ever paid for, else generated, stored and charged.

Documents that are in work at the same time share look-ups in the cache and requests to the provider.
"""

import hashlib
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.embedding.batch_key import batch_key
from kb_shared.embedding.batch_queue import Delivered
from kb_shared.embedding.guarded_provider import GuardedProvider, estimate_text_tokens
from kb_shared.embedding.known_vectors import KnownVectors
from kb_shared.embedding.models import EmbeddingModel
from kb_shared.embedding.organization_models import OrganizationModels
from kb_shared.embedding.paused_providers import PausedProviders
from kb_shared.embedding.purchases import Purpose
from kb_shared.embedding.vector_buyer import VectorBuyer
from kb_shared.embedding.vector_origin import VectorOrigin
from kb_shared.errors import OtherVectors
from kb_shared.metering.budget import SpendAllowance, Spending
from kb_shared.mongo import embedding_cache
from kb_shared.mongo.database import Database
from kb_shared.mongo.embedding_cache import VectorSpace
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.rate_limits import Bucket
from kb_shared.mongo.vector import Vector
from kb_shared.observability import spans, tracing
from kb_shared.observability.metrics import EMBEDDING_CACHE_HITS

BeforePaying: TypeAlias = Callable[[], Awaitable[None]]

_MAX_RECOGNIZED: Final = 10_000
_RECOGNIZED_FOR_S: Final = 3_600.0
_DIMENSION_PROBE: Final = "How many dimensions does a vector of this model have?"


@dataclass(frozen=True, slots=True)
class Embedded:
    vectors: list[Vector]
    """Vectors as float32, read-only, in the order of the texts."""
    generated: int
    """Number of vectors this call generated and stored, which it was charged for, in SPUs."""
    cached: int
    """Number of other distinct texts: their vectors were paid for before."""
    found: int
    """Number of distinct texts whose vectors the cache had, without a request or a wait."""
    space: VectorSpace


@dataclass(frozen=True, slots=True)
class DetectedVectors:
    dimensions: int
    origin: VectorOrigin


class Embedder:
    """Embeds texts for all organizations."""

    def __init__(
        self,
        database: Database,
        provider: GuardedProvider,
        models: OrganizationModels,
        *,
        spending: Spending,
        cache_scope: Literal["organization", "global"],
    ) -> None:
        """Construct it.

        Args:
            database: that holds cache, ledger and outbox.
            provider: asked for what the cache lacks.
            models: by organization, and by the names users give.
            spending: keeps organizations within their budgets.
            cache_scope: whether organizations share what any of them paid for.
        """
        self.models = models
        self._database = database
        self._provider = provider
        self._spending = spending
        self._cache_scope = cache_scope
        self._known = KnownVectors(database)
        self._paused = PausedProviders(database)
        self._buyer = VectorBuyer(database, provider)
        self._recognized: BoundedCache[tuple[str, str, VectorOrigin], bool] = BoundedCache(
            _MAX_RECOGNIZED, lifetime_s=_RECOGNIZED_FOR_S
        )

    async def embed(
        self,
        texts: Sequence[str],
        *,
        model: str,
        dimensions: int,
        purpose: Purpose,
        origin: VectorOrigin | None = None,
        rate_limits: Mapping[str, int] | None = None,
        allowance: SpendAllowance | None = None,
        before_paying: BeforePaying | None = None,
        on_missing: Callable[[int], None] | None = None,
    ) -> Embedded:
        """Return one vector per text.

        When it raises, the sub-batches that were answered are stored and charged: calling again pays for the rest.

        Args:
            texts: any number, none of them empty, valid Unicode; equal ones are embedded once.
            model: a name of the catalogue.
            dimensions: of the vectors; sent to the provider where they are not the model's own.
            purpose: who pays, and what for.
            origin: of the vectors that these are compared with; None if it is not known.
            rate_limits: `requests_per_minute` and `tokens_per_minute` of the KB, where it has any.
            allowance: of the work that this call is a part of; without it the call is all the work there is.
            before_paying: awaited if not all vectors are there; what it raises is raised, and nothing is paid.
            on_missing: called with the number of distinct texts whose vectors are not there yet: when the cache was
                asked, and after each answer of the provider.

        Raises:
            UnknownModel, ProviderKeyMissing: before anything is paid.
            BudgetExhausted, UnknownPrice: likewise.
            ProviderUnavailable: after some seconds of trying again.
            ProviderKeyRefused: the key is wrong or used up; sound work waits.
            ProviderRefused: trying again changes nothing.
            Parked: a limit is used up for longer than the guard waits, or the provider is known to be out.
            ProviderPaused: the organization has paused the provider, and a document of a KB needs it.
            OtherVectors: another model answers under this name than that of `origin`.
            TransientError: answers could not be stored.
        """
        reached = await self.models.get(purpose.organization_id, model)
        await self._require_origin(reached, origin, purpose.organization_id)
        return await self._embed(
            texts,
            reached,
            dimensions=dimensions,
            purpose=purpose,
            bucket=_bucket_of_kb(purpose, rate_limits),
            allowance=allowance,
            before_paying=before_paying,
            on_missing=on_missing,
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
        await self._check_not_paused(reached, purpose)
        bucket = _bucket_of_kb(purpose, rate_limits)
        await self._provider.check_available(purpose.organization_id, reached, purpose.input_type, bucket=bucket)
        await allowance.reserve(1, nano_usd=reached.nano_usd(1))

    async def detect_vectors(self, *, model: str, purpose: Purpose) -> DetectedVectors:
        """Ask the model for one vector and return its length and origin.

        Stored and charged as any other vector, but kept for seven days only and in a space of its own (0 dimensions),
        because the real number is not known when the cache is asked. Raises what `embed` raises.
        """
        reached = await self.models.get(purpose.organization_id, model)
        # Also where the vector is in the cache: what is detected now is paid for later.
        await self._spending.check_price(purpose.organization_id, known=reached.price is not None)
        embedded = await self._embed([_DIMENSION_PROBE], reached, dimensions=None, purpose=purpose)
        (vector,) = embedded.vectors
        return DetectedVectors(len(vector), VectorOrigin.from_probe(reached.fingerprint, vector))

    @property
    def probe_tokens(self) -> int:
        """Return the estimated tokens of the text that `detect_vectors` embeds."""
        return estimate_text_tokens([_DIMENSION_PROBE])

    async def ask_unguarded(self, organization_id: str, model: str, text: str) -> Vector:
        """Ask the model for one vector, in spite of open circuits and used-up limits. Nothing is stored or charged.

        Raises:
            UnknownModel, ProviderKeyMissing, ProviderUnavailable, ProviderRefused, TimedOut.
        """
        reached = await self.models.get(organization_id, model)
        return await self._provider.ask_unguarded(text, reached)

    async def find_dimensions(self, *, model: str, purpose: Purpose) -> int | None:
        """Return the dimensions that `detect_vectors` found in the last days; None if it has to ask the model.

        Raises:
            UnknownModel, ProviderKeyMissing: as `embed` does.
        """
        reached = await self.models.get(purpose.organization_id, model)
        key = batch_key(reached, None, purpose, cache_scope=self._cache_scope)
        probe = hashlib.sha256(_DIMENSION_PROBE.encode()).hexdigest()
        found = await self._known.find(key.space, [probe], keep_for=None)
        return len(found[probe]) if probe in found else None

    async def find_unpaid(
        self, chunk_hashes: Collection[str], *, model: str, dimensions: int, purpose: Purpose
    ) -> set[str]:
        """Return the texts, by their hashes, that `embed` would pay for now: their vectors are not in the cache.

        Raises:
            UnknownModel, ProviderKeyMissing: as `embed` does.
        """
        reached = await self.models.get(purpose.organization_id, model)
        space = batch_key(reached, dimensions, purpose, cache_scope=self._cache_scope).space
        keys = {space.key(chunk_hash): chunk_hash for chunk_hash in chunk_hashes}
        missing = await embedding_cache.find_missing(self._database, space.scope, keys)
        return {keys[key] for key in missing}

    def allowance(self, organization_id: str) -> AbstractAsyncContextManager[SpendAllowance]:
        """Open an allowance for work that needs several calls, so that the budget does not end in their middle."""
        return self._spending.allowance(organization_id)

    def cancel_calls(self, kb_id: str) -> None:
        """Cancel the calls for a deleted KB, except those whose texts another caller or KB waits for."""
        self._buyer.cancel_calls(kb_id)

    async def close(self) -> None:
        """Wait until all that was paid for is stored, then close the provider's connections."""
        await self._buyer.finish()
        await self._provider.close()

    async def _embed(
        self,
        texts: Sequence[str],
        model: EmbeddingModel,
        *,
        dimensions: int | None,
        purpose: Purpose,
        bucket: Bucket | None = None,
        allowance: SpendAllowance | None = None,
        before_paying: BeforePaying | None = None,
        on_missing: Callable[[int], None] | None = None,
    ) -> Embedded:
        key = batch_key(model, dimensions, purpose, cache_scope=self._cache_scope)
        hashes = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        distinct = dict(zip(hashes, texts, strict=True))
        with tracing.span(spans.FIND_VECTORS, {"kb.texts": len(distinct)}) as span:
            vectors = await self._known.find(key.space, distinct, keep_for=key.lifetime_from_use)
            found = len(vectors)
            span.set({"kb.cache_hits": found})
        missing = {chunk_hash: text for chunk_hash, text in distinct.items() if chunk_hash not in vectors}
        if missing:
            await self._check_not_paused(model, purpose)
        if before_paying is not None and missing:
            await before_paying()
        if bucket is not None and missing:
            await self._reserve(bucket, missing.values(), model=model, purpose=purpose)
        delivered: dict[str, Delivered] = {}
        if missing:
            if on_missing is not None:
                on_missing(len(missing))
            async with (
                nullcontext(allowance)
                if allowance is not None
                else self.allowance(purpose.organization_id) as spendable
            ):
                delivered = await self._buyer.buy(
                    missing, model, key, purpose=purpose, allowance=spendable, on_missing=on_missing
                )
        # Not before: a call that failed is repeated, and counts each text once.
        EMBEDDING_CACHE_HITS.labels(model.label).inc(found)
        vectors |= {chunk_hash: delivery.vector for chunk_hash, delivery in delivered.items()}
        if key.input_type == "query":
            self._known.remember(key.space, vectors)
        generated = sum(delivery.charged for delivery in delivered.values())
        return Embedded(
            [vectors[chunk_hash] for chunk_hash in hashes], generated, len(distinct) - generated, found, key.space
        )

    async def _require_origin(self, model: EmbeddingModel, origin: VectorOrigin | None, organization_id: str) -> None:
        """Ask a model that is reached in another way than `origin` for a sample. Raises OtherVectors."""
        if origin is None or origin.fingerprint == model.fingerprint:
            return
        key = (organization_id, model.fingerprint, origin)
        is_same = self._recognized.find(key)
        if is_same is None:
            purpose = Purpose(organization_id, None, operation="index", input_type="document")
            probe = await self._embed([_DIMENSION_PROBE], model, dimensions=None, purpose=purpose)
            is_same = origin.is_same_model(VectorOrigin.from_probe(model.fingerprint, probe.vectors[0]))
            self._recognized.put(key, is_same)
        if not is_same:
            raise OtherVectors(model.name)

    async def _check_not_paused(self, model: EmbeddingModel, purpose: Purpose) -> None:
        """Raise ProviderPaused for the documents of a KB. Searches, and the creation of a KB, go on."""
        if purpose.operation == "index" and purpose.kb_id is not None:
            await self._paused.check(purpose.organization_id, model.provider)

    async def _reserve(
        self, bucket: Bucket, texts: Collection[str], *, model: EmbeddingModel, purpose: Purpose
    ) -> None:
        texts_per_request = self._provider.pace(purpose.organization_id, model, purpose.input_type).texts
        requests = math.ceil(len(texts) / texts_per_request)
        await self._provider.reserve(bucket, requests=requests, tokens=estimate_text_tokens(texts))


def _bucket_of_kb(purpose: Purpose, rate_limits: Mapping[str, int] | None) -> Bucket | None:
    if not rate_limits or purpose.kb_id is None:
        return None
    return Bucket.of_knowledge_base(KnowledgeBaseKey(purpose.organization_id, purpose.kb_id), rate_limits)
