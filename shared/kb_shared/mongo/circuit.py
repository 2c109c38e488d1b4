"""Circuit breaker of one organization and one model: closed, open until a time, then half open for one probe.

Pure decisions without clock and client. Times are of MongoDB's clock, which all replicas share.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final


class Cause(StrEnum):
    """Cause of an open circuit."""

    OUTAGE = "outage"
    QUOTA = "quota"
    KEY = "key"


OUTAGES_TO_OPEN: Final = 5
"""Number of consecutive outages, over all replicas, that open a circuit. A used up quota or a refused key opens it
at once."""
_FIRST_PAUSE: Final = {
    Cause.OUTAGE: timedelta(seconds=5),
    Cause.QUOTA: timedelta(seconds=60),
    Cause.KEY: timedelta(seconds=30),
}
_LONGEST_PAUSE: Final = timedelta(minutes=5)
_ENOUGH_DOUBLINGS: Final = 10


@dataclass(frozen=True, slots=True)
class Circuit:
    """State of a circuit. A new one is closed."""

    generation: int = 0
    """Number of openings, probes and closings. The outcome of a call from an earlier generation is ignored."""
    failures: int = 0
    """Number of consecutive failures while closed."""
    openings: int = 0
    """Number of openings without a success between them."""
    cause: Cause | None = None
    """Cause of the opening; None while closed."""
    open_until: datetime | None = None
    probe_until: datetime | None = None
    """Time by which the probe in progress has ended or is given up."""


@dataclass(frozen=True, slots=True)
class CallPermission:
    """Permission to call the provider, passed back with the outcome of the call."""

    generation: int
    is_circuit_probe: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    cause: Cause
    retry_after: timedelta


def admit(circuit: Circuit, now: datetime, *, probe_lifetime: timedelta) -> tuple[Circuit, CallPermission | Refusal]:
    """Admit all calls while closed, none while open, and then one probe until its outcome is known."""
    if circuit.cause is None:
        return circuit, CallPermission(circuit.generation, is_circuit_probe=False)
    if left := _left(circuit.open_until, now, at_most=_LONGEST_PAUSE):
        return circuit, Refusal(circuit.cause, left)
    if left := _left(circuit.probe_until, now, at_most=probe_lifetime):
        return circuit, Refusal(circuit.cause, min(left, _FIRST_PAUSE[Cause.OUTAGE]))
    # A new generation, so that the outcome of an earlier probe that was given up is ignored.
    probed = replace(circuit, generation=circuit.generation + 1, probe_until=now + probe_lifetime)
    return probed, CallPermission(probed.generation, is_circuit_probe=True)


def succeeded(circuit: Circuit, permission: CallPermission) -> Circuit:
    """Return the circuit after a response of the provider."""
    if permission.generation != circuit.generation:
        return circuit
    if circuit.cause is None:
        return replace(circuit, failures=0)
    return Circuit(generation=circuit.generation + 1)


def failed(circuit: Circuit, permission: CallPermission, *, cause: Cause, now: datetime) -> Circuit:
    """Return the circuit after a failure that concerns all calls, not only this one."""
    if permission.generation != circuit.generation:
        return circuit
    failures = circuit.failures + 1
    if circuit.cause is None and cause is Cause.OUTAGE and failures < OUTAGES_TO_OPEN:
        return replace(circuit, failures=failures)
    pause = min(_FIRST_PAUSE[cause] * 2 ** min(circuit.openings, _ENOUGH_DOUBLINGS), _LONGEST_PAUSE)
    return Circuit(
        generation=circuit.generation + 1,
        openings=circuit.openings + 1,
        cause=cause,
        open_until=now + pause,
    )


def release_probe(circuit: Circuit, permission: CallPermission) -> Circuit:
    """Return the circuit after a call whose outcome says nothing about the provider: another call may probe."""
    if permission.is_circuit_probe and permission.generation == circuit.generation:
        return replace(circuit, probe_until=None)
    return circuit


def _left(until: datetime | None, now: datetime, *, at_most: timedelta) -> timedelta:
    """Return the time left; 0 also if it exceeds `at_most`, because the clock was set back."""
    left = until - now if until is not None else timedelta()
    return left if timedelta() < left <= at_most else timedelta()
