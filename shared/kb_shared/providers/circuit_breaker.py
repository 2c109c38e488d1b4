"""Stops calls of an organization to a provider that is out for it, so that its work does not delay that of others."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar

import structlog
from pymongo.errors import PyMongoError

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.errors import Parked, ProviderRefused, ProviderUnavailable, TransientError
from kb_shared.mongo import circuit, circuits
from kb_shared.mongo.circuit import CallPermission, Cause, Circuit, Refusal
from kb_shared.mongo.circuits import CircuitId
from kb_shared.mongo.database import Database
from kb_shared.observability.metrics import CIRCUITS_OPENED

FRESH_S: Final = 1.0
"""Time for which a circuit is assumed to be unchanged since it was last read."""
MAX_SEEN: Final = 1_000

_CAUSES: Final = {
    "provider_timeout": Cause.OUTAGE,
    "provider_5xx": Cause.OUTAGE,
    "provider_quota": Cause.QUOTA,
    "provider_auth": Cause.KEY,
}
_ERROR_TYPES: Final = {
    Cause.OUTAGE: "provider_outage",
    Cause.QUOTA: "provider_quota",
    Cause.KEY: "provider_auth",
}
_DESCRIPTIONS: Final = {
    Cause.OUTAGE: "is out",
    Cause.QUOTA: "says that the quota of its key is used up",
    Cause.KEY: "refuses its key",
}

T = TypeVar("T")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Seen:
    """A circuit as this process saw it last."""

    circuit: Circuit
    server_time: datetime
    at: float
    """Time on the loop's clock."""

    @property
    def age_s(self) -> float:
        return asyncio.get_running_loop().time() - self.at

    @property
    def now(self) -> datetime:
        return self.server_time + timedelta(seconds=self.age_s)


class CircuitBreaker:
    """Circuit breakers of all organizations. One for a process; their state is shared by all replicas."""

    def __init__(self, database: Database, *, probe_lifetime: timedelta) -> None:
        """Construct it; `probe_lifetime` is longer than any call takes."""
        self._database = database
        self._probe_lifetime = probe_lifetime
        self._seen: BoundedCache[CircuitId, _Seen] = BoundedCache(MAX_SEEN)

    @asynccontextmanager
    async def guard(self, circuit_id: CircuitId, *, is_counted: bool = False) -> AsyncIterator[CallPermission]:
        """Make one call to the provider in the block; its errors pass through, and tell whether it is out.

        A call that is a probe should ask for little: the provider may still be out. `is_counted` says that an outage
        of the same call was noted before, so that one caller who tries again does not open the circuit for all.

        Raises:
            Parked: it is known to be out; it was not asked.
        """
        permission = await self._admit(circuit_id)
        try:
            yield permission
        except (ProviderUnavailable, ProviderRefused) as error:
            if permission.is_circuit_probe or not (is_counted and is_outage(error)):
                await self._note_error(circuit_id, permission, error)
            raise
        except BaseException:
            await asyncio.shield(self._release_probe(circuit_id, permission))
            raise
        try:
            await self._note_answer(circuit_id, permission)
        except (PyMongoError, TransientError) as error:
            # The answer is paid for, so it is returned; the next answer closes the circuit.
            log.warning("circuit.update_failed", error=type(error).__name__)

    async def check_available(self, circuit_id: CircuitId) -> None:
        """Raise what `guard` would, without asking the provider."""
        seen = await self._read_circuit(circuit_id)
        _, answer = self._decide_admission(seen.circuit, seen.now)
        if isinstance(answer, Refusal):
            raise _parked(circuit_id, answer)

    async def _admit(self, circuit_id: CircuitId) -> CallPermission:
        seen = await self._read_circuit(circuit_id)
        _, answer = self._decide_admission(seen.circuit, seen.now)
        if isinstance(answer, CallPermission) and answer.is_circuit_probe:
            # One of all replicas only.
            answer = await self._change(circuit_id, self._decide_admission)
        if isinstance(answer, Refusal):
            raise _parked(circuit_id, answer)
        return answer

    def _decide_admission(self, before: Circuit, now: datetime) -> tuple[Circuit, CallPermission | Refusal]:
        return circuit.admit(before, now, probe_lifetime=self._probe_lifetime)

    async def _read_circuit(self, circuit_id: CircuitId) -> _Seen:
        seen = self._seen.find(circuit_id)
        if seen is None or seen.age_s > FRESH_S:
            found, server_time = await circuits.read(self._database, circuit_id)
            seen = _Seen(found, server_time, asyncio.get_running_loop().time())
            self._seen.put(circuit_id, seen)
        return seen

    async def _note_error(
        self, circuit_id: CircuitId, permission: CallPermission, error: ProviderUnavailable | ProviderRefused
    ) -> None:
        if error.error_type == "bad_answer":
            await self._release_probe(circuit_id, permission)
        elif cause := _CAUSES.get(error.error_type):
            await self._note_outage(circuit_id, permission, cause)
        else:
            # The provider is there: it refused the request.
            await self._note_answer(circuit_id, permission)

    async def _note_outage(self, circuit_id: CircuitId, permission: CallPermission, cause: Cause) -> None:
        def decide(before: Circuit, now: datetime) -> tuple[Circuit, bool]:
            after = circuit.failed(before, permission, cause=cause, now=now)
            return after, after.generation != before.generation

        if await self._change(circuit_id, decide):
            CIRCUITS_OPENED.labels(cause).inc()
            log.warning(
                "circuit.opened", organization_id=circuit_id.organization_id, model=circuit_id.model, cause=cause
            )

    async def _note_answer(self, circuit_id: CircuitId, permission: CallPermission) -> None:
        seen = self._seen.find(circuit_id)
        if seen is not None and seen.circuit.cause is None and not seen.circuit.failures:
            return
        await self._change(circuit_id, lambda before, _: (circuit.succeeded(before, permission), None))

    async def _release_probe(self, circuit_id: CircuitId, permission: CallPermission) -> None:
        if permission.is_circuit_probe:
            await self._change(circuit_id, lambda before, _: (circuit.release_probe(before, permission), None))

    async def _change(self, circuit_id: CircuitId, decide: Callable[[Circuit, datetime], tuple[Circuit, T]]) -> T:
        try:
            return await circuits.change(self._database, circuit_id, decide)
        finally:
            # Read again at the next call, also after a failure.
            self._seen.discard(circuit_id)


def is_outage(error: Exception | None) -> bool:
    """Return whether an error is one of those that open a circuit if there are several in a row."""
    return isinstance(error, ProviderUnavailable) and _CAUSES.get(error.error_type) is Cause.OUTAGE


def _parked(circuit_id: CircuitId, refusal: Refusal) -> Parked:
    return Parked(
        f"the provider of {circuit_id.model!r} {_DESCRIPTIONS[refusal.cause]}",
        error_type=_ERROR_TYPES[refusal.cause],
        retry_after_s=refusal.retry_after.total_seconds(),
    )
