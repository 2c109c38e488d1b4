"""Guards the calls to a provider, of embeddings and of chat alike.

Each call passes, in this order:

1. the circuit breaker: while the provider is out for the organization, the call is refused without being made;
2. the rate limiter: the call waits until the model's limits of requests and tokens a minute allow it;
3. after a 429 that names a time, the model's bucket is closed for that time, on all replicas;
4. the retry policy: a call that failed because the provider is unavailable is repeated in place for a few seconds.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import stamina

from kb_shared.errors import ProviderUnavailable
from kb_shared.mongo.circuits import CircuitId
from kb_shared.mongo.rate_limits import Bucket
from kb_shared.observability import spans, tracing
from kb_shared.observability.metrics import RETRIES
from kb_shared.providers.access import Access
from kb_shared.providers.circuit_breaker import CircuitBreaker, is_outage
from kb_shared.providers.rate_limiter import RateLimiter
from kb_shared.providers.retry_policy import RetryPolicy, retry_reason

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GuardedModel:
    """A model as one organization reaches it: the circuit and the bucket that its calls share."""

    circuit_id: CircuitId
    bucket: Bucket


def guarded_model(
    organization_id: str, provider_fingerprint: str, *, access: Access | None, circuit_name: str, bucket_name: str
) -> GuardedModel:
    """Name the circuit and the bucket of a model; its limits are those of the organization's own key, if it has one."""
    return GuardedModel(
        CircuitId(organization_id, provider_fingerprint, circuit_name),
        Bucket.of_model(
            organization_id,
            bucket_name,
            requests_per_minute=access.requests_per_minute if access else None,
            tokens_per_minute=access.tokens_per_minute if access else None,
        ),
    )


@dataclass(frozen=True, slots=True)
class AdmittedCall:
    """A call that the circuit breaker lets through."""

    is_circuit_probe: bool
    """True if the provider may still be out: the call should ask for little."""
    reserve_tokens: Callable[[int], Awaitable[None]]
    """Function that waits until the limits allow a request with so many tokens. Raises Parked if it takes too long."""


class ProviderGuard:
    """Guards the calls of one process; circuits and limits hold for all replicas together."""

    def __init__(self, circuits: CircuitBreaker, limiter: RateLimiter, *, patience_s: float) -> None:
        """Construct it.

        Args:
            circuits: keep an organization away from a provider that is out for it.
            limiter: keeps all replicas within the limits of a bucket.
            patience_s: how long a call is repeated while its provider is unavailable, and how long one attempt waits
                for the limiter. A call that would wait longer is parked.
        """
        self._circuits = circuits
        self._limiter = limiter
        self._patience_s = patience_s

    async def retry(
        self, call: Callable[[bool], Awaitable[T]], *, model: str, may_repeat: Callable[[Exception], bool]
    ) -> T:
        """Make a call, and repeat it while the provider is unavailable, for `patience_s` in all.

        Args:
            call: one attempt; it enters `admit`, and passes on whether an attempt before has met an outage.
            model: label of the model, for metrics.
            may_repeat: False for an error after which a repetition would do harm: a part of the answer was passed on.

        Raises:
            ProviderUnavailable: still unavailable after `patience_s`, or asks for a longer pause than is left of it.
            Exception: whatever else `call` raises, at once.
        """
        retry_policy = RetryPolicy(self._patience_s)
        failure: Exception | None = None
        is_counted = False

        def decide(error: Exception) -> bool | float:
            nonlocal failure, is_counted
            failure = error
            is_counted = is_counted or is_outage(error)
            return may_repeat(error) and retry_policy.decide(error)

        with tracing.span(spans.CALL_PROVIDER) as span:
            async for attempt in stamina.retry_context(
                on=decide, attempts=None, timeout=self._patience_s, wait_max=4.0, wait_jitter=0.5
            ):
                if isinstance(failure, ProviderUnavailable):
                    # Not when it is decided: the time may be over before the repetition begins.
                    RETRIES.labels(model, retry_reason(failure)).inc()
                span.set({"kb.attempts": attempt.num})
                with attempt:
                    return await call(is_counted)
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def admit(self, model: GuardedModel, *, is_counted: bool = False) -> AsyncIterator[AdmittedCall]:
        """Make one call in the block: its errors pass through, and tell whether the provider is out.

        `is_counted` says that an outage of the same call was noted before: it counts once.

        Raises:
            Parked: the provider is known to be out; it was not asked.
        """
        try:
            async with self._circuits.guard(model.circuit_id, is_counted=is_counted) as permission:
                yield AdmittedCall(
                    permission.is_circuit_probe, lambda tokens: self.reserve(model.bucket, tokens=tokens)
                )
        except ProviderUnavailable as error:
            if error.error_type == "provider_429" and error.retry_after_s:
                # For every replica: the next one to ask would get the same answer.
                await self._limiter.close(model.bucket, error.retry_after_s)
            raise

    async def reserve(self, bucket: Bucket, *, requests: int = 1, tokens: int) -> None:
        """Wait until `bucket` allows this.

        Raises:
            Parked: the wait would be longer than `patience_s`; nothing was reserved.
        """
        await self._limiter.reserve(bucket, requests=requests, tokens=tokens, patience_s=self._patience_s)

    async def check_available(self, model: GuardedModel, *buckets: Bucket) -> None:
        """Raise Parked if a call would be refused now, by the circuit or by a bucket; reserves nothing."""
        await self._circuits.check_available(model.circuit_id)
        for bucket in (*buckets, model.bucket):
            await self._limiter.check_available(bucket, patience_s=self._patience_s)

    async def wait_for_returns(self) -> None:
        """Wait until cancelled callers have given back what they had reserved. Call it before the database closes."""
        await self._limiter.wait_for_returns()
