from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kb_shared.mongo import circuit
from kb_shared.mongo.circuit import OUTAGES_TO_OPEN, CallPermission, Cause, Circuit, Refusal

PROBE = timedelta(seconds=70)
LONGEST = timedelta(minutes=5)
START = datetime(2026, 1, 1, tzinfo=UTC)


def admit(before: Circuit, now: datetime) -> tuple[Circuit, CallPermission | Refusal]:
    return circuit.admit(before, now, probe_lifetime=PROBE)


class Replicas(RuleBasedStateMachine):
    """Calls of any number of replicas, begun and ended in any order, while time goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.circuit = Circuit()
        self.under_way: list[tuple[CallPermission, datetime]] = []

    @initialize()
    def nothing_has_happened(self) -> None:
        assert admit(self.circuit, self.now) == (self.circuit, CallPermission(0, is_circuit_probe=False))

    @rule(seconds=st.floats(0, 400))
    def time_goes_on(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def a_call_begins(self) -> None:
        before = self.circuit
        self.circuit, answer = admit(before, self.now)
        if isinstance(answer, Refusal):
            assert self.circuit == before
            assert before.cause is answer.cause
            assert timedelta() < answer.retry_after <= LONGEST
            return
        assert answer.is_circuit_probe == (before.cause is not None)
        if answer.is_circuit_probe:
            assert not self.probes(), "one probe at a time"
            assert before.open_until is not None
            assert before.open_until <= self.now
        self.under_way.append((answer, self.now))

    def probes(self) -> list[CallPermission]:
        """Return the admitted probes that may still report, of replicas that may still live."""
        return [
            admission
            for admission, begun_at in self.under_way
            if admission.is_circuit_probe
            and admission.generation == self.circuit.generation
            and self.now < begun_at + PROBE
        ]

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def a_call_succeeds(self, data: st.DataObject) -> None:
        before, admission = self.circuit, self.end_of_one(data)
        self.circuit = circuit.succeeded(before, admission)
        if admission.generation == before.generation:
            assert (self.circuit.cause, self.circuit.failures, self.circuit.openings) == (None, 0, 0)
        else:
            assert self.circuit == before, "it began in another time"

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), cause=st.sampled_from(Cause))
    def a_call_fails(self, data: st.DataObject, cause: Cause) -> None:
        before, admission = self.circuit, self.end_of_one(data)
        self.circuit = circuit.failed(before, admission, cause=cause, now=self.now)
        if admission.generation != before.generation:
            assert self.circuit == before, "it began in another time"
        elif admission.is_circuit_probe or cause is not Cause.OUTAGE or before.failures + 1 == OUTAGES_TO_OPEN:
            assert self.circuit.cause is cause
            assert isinstance(admit(self.circuit, self.now)[1], Refusal), "it is open from now on"
        else:
            assert self.circuit.cause is None

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def a_call_is_given_up(self, data: st.DataObject) -> None:
        before, admission = self.circuit, self.end_of_one(data)
        self.circuit = circuit.release_probe(before, admission)
        assert (self.circuit.cause, self.circuit.open_until) == (before.cause, before.open_until)

    def end_of_one(self, data: st.DataObject) -> CallPermission:
        return self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))[0]

    @invariant()
    def a_call_is_admitted_after_the_longest_pause(self) -> None:
        _, answer = admit(self.circuit, self.now + LONGEST + PROBE)
        assert isinstance(answer, CallPermission)


TestReplicas = Replicas.TestCase


def opened(cause: Cause = Cause.QUOTA, *, times: int = 1) -> tuple[Circuit, datetime]:
    current, now = Circuit(), START
    for _ in range(times):
        now = current.open_until or now
        current, answer = admit(current, now)
        assert isinstance(answer, CallPermission)
        current = circuit.failed(current, answer, cause=cause, now=now)
    return current, now


@pytest.mark.parametrize("cause", Cause)
def test_each_opening_without_a_success_lasts_longer_up_to_a_limit(cause: Cause) -> None:
    failures = (opened(cause, times=times) for times in range(1, 80))
    lengths = [current.open_until - now for current, now in failures if current.open_until is not None]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1] == LONGEST


def test_outages_of_now_and_then_open_nothing() -> None:
    current = Circuit()
    for _ in range(10):
        for _ in range(OUTAGES_TO_OPEN - 1):
            current = circuit.failed(current, CallPermission(0, is_circuit_probe=False), cause=Cause.OUTAGE, now=START)
        current = circuit.succeeded(current, CallPermission(0, is_circuit_probe=False))
    assert current.cause is None


def test_a_given_up_probe_makes_way_for_another() -> None:
    current, now = opened()
    assert current.open_until is not None
    current, probe = admit(current, current.open_until)
    assert isinstance(probe, CallPermission)
    assert isinstance(admit(current, current.open_until or now)[1], Refusal)
    current = circuit.release_probe(current, probe)
    _, answer = admit(current, current.open_until or now)
    assert isinstance(answer, CallPermission)
    assert answer.is_circuit_probe


def test_a_clock_that_jumps_back_does_not_shut_the_circuit() -> None:
    current, now = opened()
    assert isinstance(admit(current, now - timedelta(hours=1))[1], CallPermission)
