"""Asks providers for vectors within circuits, limits and retries, and with as many texts as they answer in time."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Final

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.embedding.batch_key import BatchKey
from kb_shared.embedding.models import EmbeddingModel
from kb_shared.embedding.pace import Pace
from kb_shared.embedding.provider import Provider
from kb_shared.errors import ProviderUnavailable
from kb_shared.mongo.circuits import CircuitId
from kb_shared.mongo.rate_limits import Bucket
from kb_shared.mongo.vector import Vector
from kb_shared.providers.known_providers import InputType
from kb_shared.providers.provider_guard import GuardedModel, ProviderGuard, guarded_model

QUERIES: Final = "queries/"
"""Prefix of the model's name in circuits: an outage that documents meet does not refuse queries."""
MAX_PACES: Final = 1_000


class GuardedProvider:
    """The provider, its guard, and the pace of each model. One for a process."""

    def __init__(self, provider: Provider, guard: ProviderGuard) -> None:
        self._provider = provider
        self._guard = guard
        self._paces: BoundedCache[CircuitId, Pace] = BoundedCache(MAX_PACES)

    async def embed(self, texts: Sequence[str], model: EmbeddingModel, key: BatchKey) -> list[Vector]:
        """Return the vectors of the first of `texts`: of all of them, unless the call is a probe, which asks for one.

        Raises:
            KbError: whatever `Provider.embed` and `ProviderGuard.retry` raise.
        """

        def may_repeat(error: Exception) -> bool:
            # Too many texts for one request: their callers come back, and the next batches are smaller.
            has_too_many = _timed_out(error) and len(texts) > 1
            # Documents come back after some seconds, when the cause may have passed: each answer is paid for.
            waits = key.input_type == "document" and _is_bad_answer(error)
            return not (has_too_many or waits)

        return await self._guard.retry(
            lambda is_counted: self._embed_once(texts, model, key, is_counted=is_counted),
            model=model.label,
            may_repeat=may_repeat,
        )

    async def ask_unguarded(self, text: str, model: EmbeddingModel) -> Vector:
        """Ask once for the vector of a text, whatever circuits and limits say. Raises as `Provider.embed`."""
        return (await self._provider.embed([text], model=model, dimensions=None, input_type="query"))[0]

    async def reserve(self, bucket: Bucket, *, requests: int, tokens: int) -> None:
        """Wait until the limits of a KB allow this. Raises Parked if that takes too long."""
        await self._guard.reserve(bucket, requests=requests, tokens=tokens)

    async def check_available(
        self, organization_id: str, model: EmbeddingModel, input_type: InputType, *, bucket: Bucket | None
    ) -> None:
        """Raise Parked if a request to the model, or one that `bucket` limits, too, would be refused now."""
        guarded = _guarded(organization_id, model, input_type)
        await self._guard.check_available(guarded, *([] if bucket is None else [bucket]))

    def pace(self, organization_id: str, model: EmbeddingModel, input_type: InputType) -> Pace:
        """Return how much the provider is asked at once."""
        circuit_id = _guarded(organization_id, model, input_type).circuit_id
        # A model in this process has no deadline, and the pieces of a document share work if they come together.
        deadline_s = math.inf if model.late_source is not None else self._provider.timeout_s
        pace = self._paces.find(circuit_id)
        if pace is None:
            pace = Pace(deadline_s=deadline_s)
            self._paces.put(circuit_id, pace)
        return pace

    async def close(self) -> None:
        """Finish what the limiter gives back, then close the provider's connections."""
        await self._guard.wait_for_returns()
        await self._provider.close()

    async def _embed_once(
        self, texts: Sequence[str], model: EmbeddingModel, key: BatchKey, *, is_counted: bool
    ) -> list[Vector]:
        pace = self.pace(key.organization_id, model, key.input_type)
        guarded = _guarded(key.organization_id, model, key.input_type)
        async with self._guard.admit(guarded, is_counted=is_counted) as call:
            asked = texts[:1] if call.is_circuit_probe else texts
            await call.reserve_tokens(estimate_text_tokens(asked))
            vectors, seconds = await self._embed_timed(asked, model, key=key, pace=pace)
        # After the circuit is closed: a request that the pace lets through during a probe would be refused.
        pace.answered(len(asked), seconds=seconds)
        return vectors

    async def _embed_timed(
        self, texts: Sequence[str], model: EmbeddingModel, *, key: BatchKey, pace: Pace
    ) -> tuple[list[Vector], float]:
        """Return the vectors and the seconds until the answer; tell `pace` if it came too late."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            vectors = await self._provider.embed(
                texts, model=model, dimensions=key.dimensions, input_type=key.input_type
            )
        except ProviderUnavailable as error:
            if _timed_out(error):
                pace.timed_out(len(texts))
            raise
        return vectors, clock() - began


def estimate_text_tokens(texts: Iterable[str]) -> int:
    """Estimate tokens for limits, before the provider has counted: rather too many, a token of English has 4 bytes."""
    return sum(len(text.encode()) // 3 + 1 for text in texts)


def _guarded(organization_id: str, model: EmbeddingModel, input_type: InputType) -> GuardedModel:
    return guarded_model(
        organization_id,
        model.fingerprint,
        access=model.access,
        circuit_name=(QUERIES if input_type == "query" else "") + model.name,
        bucket_name=model.name,
    )


def _timed_out(error: Exception) -> bool:
    return isinstance(error, ProviderUnavailable) and error.error_type == "provider_timeout"


def _is_bad_answer(error: Exception) -> bool:
    return isinstance(error, ProviderUnavailable) and error.error_type == "bad_answer"
