"""The circuit of one organization's way to one model: closed, open until a time, then half open for one probe.

Values and decisions only: no clock, no client. The times are those of MongoDB's clock, which all replicas share.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final


class Cause(StrEnum):
    """Why a provider is not asked for now."""

    OUTAGE = "outage"
    QUOTA = "quota"
    KEY = "key"


OUTAGES_TO_OPEN: Final = 5
"""In a row, of all replicas. A used up quota or a refused key opens at once: it is no accident."""
_FIRST_PAUSE: Final = {
    Cause.OUTAGE: timedelta(seconds=5),
    Cause.QUOTA: timedelta(seconds=60),
    Cause.KEY: timedelta(seconds=30),
}
_LONGEST_PAUSE: Final = timedelta(minutes=5)
_ENOUGH_DOUBLINGS: Final = 10


@dataclass(frozen=True, slots=True)
class Circuit:
    """As of a moment. A fresh one is closed."""

    generation: int = 0
    """Raised by each opening, probe and closing: what was begun before says nothing about now."""
    failures: int = 0
    """In a row while closed."""
    openings: int = 0
    """In a row without a success between them."""
    cause: Cause | None = None
    """None while closed."""
    open_until: datetime | None = None
    probe_until: datetime | None = None
    """Somebody is asking the provider whether it is back; after this nobody is any more."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Leave to ask the provider, to be given back with the outcome."""

    generation: int
    probe: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    cause: Cause
    retry_after: timedelta


def admit(circuit: Circuit, now: datetime, *, probe_lifetime: timedelta) -> tuple[Circuit, Admission | Refusal]:
    """Let everybody through while closed, nobody while open, and one after that until its outcome is known."""
    if circuit.cause is None:
        return circuit, Admission(circuit.generation, probe=False)
    if left := _left(circuit.open_until, now, at_most=_LONGEST_PAUSE):
        return circuit, Refusal(circuit.cause, left)
    if left := _left(circuit.probe_until, now, at_most=probe_lifetime):
        return circuit, Refusal(circuit.cause, min(left, _FIRST_PAUSE[Cause.OUTAGE]))
    # A generation of its own: an earlier probe that was given up for dead says nothing about this one.
    probed = replace(circuit, generation=circuit.generation + 1, probe_until=now + probe_lifetime)
    return probed, Admission(probed.generation, probe=True)


def succeeded(circuit: Circuit, admission: Admission) -> Circuit:
    """The provider answered."""
    if admission.generation != circuit.generation:
        return circuit
    if circuit.cause is None:
        return replace(circuit, failures=0)
    return Circuit(generation=circuit.generation + 1)


def failed(circuit: Circuit, admission: Admission, *, cause: Cause, now: datetime) -> Circuit:
    """The provider is out, in a way that concerns all calls and not this one alone."""
    if admission.generation != circuit.generation:
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


def let_go(circuit: Circuit, admission: Admission) -> Circuit:
    """The call ended without telling anything of the provider: somebody else may probe."""
    if admission.probe and admission.generation == circuit.generation:
        return replace(circuit, probe_until=None)
    return circuit


def _left(until: datetime | None, now: datetime, *, at_most: timedelta) -> timedelta:
    """Zero also where more is left than there can be: the clock has jumped back."""
    left = until - now if until is not None else timedelta()
    return left if timedelta() < left <= at_most else timedelta()
