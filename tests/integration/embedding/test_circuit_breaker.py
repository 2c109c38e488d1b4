"""Two replicas, each with a breaker, on a real MongoDB."""

import asyncio
from datetime import timedelta

import pytest
from pymongo.errors import AutoReconnect

from kb_shared.errors import BatchRefused, Parked, ProviderKeyRefused, ProviderUnavailable
from kb_shared.mongo import circuits
from kb_shared.mongo.circuit import OUTAGES_TO_OPEN
from kb_shared.mongo.circuits import CircuitId
from kb_shared.mongo.database import Database
from kb_shared.providers.circuit_breaker import CircuitBreaker

ACME = CircuitId("acme", "fingerprint", "m")
OTHER = CircuitId("other", "fingerprint", "m")
QUOTA = ProviderKeyRefused("no", error_type="provider_quota")
OUTAGE = ProviderUnavailable("down", error_type="provider_5xx")


async def call(replica: CircuitBreaker, circuit_id: CircuitId = ACME, *, error: Exception | None = None) -> None:
    async with replica.guard(circuit_id):
        if error is not None:
            raise error


@pytest.fixture
def replicas(database: Database) -> tuple[CircuitBreaker, CircuitBreaker]:
    lifetime = timedelta(seconds=60)
    return CircuitBreaker(database, probe_lifetime=lifetime), CircuitBreaker(database, probe_lifetime=lifetime)


async def time_passes(database: Database, circuit_id: CircuitId = ACME) -> None:
    """Until the circuit may be probed."""
    past = [{"$set": {"open_until": {"$subtract": ["$$NOW", 1]}}}]
    assert (await database[circuits.NAME].update_one(circuit_id.key, past)).matched_count == 1


async def test_an_open_circuit_stops_other_replicas_and_no_other_organization(
    replicas: tuple[CircuitBreaker, CircuitBreaker],
) -> None:
    one, two = replicas
    with pytest.raises(ProviderKeyRefused):
        await call(one, error=QUOTA)
    for replica in replicas:
        with pytest.raises(Parked) as parked:
            await call(replica, error=AssertionError("the provider was asked"))
        assert parked.value.error_type == "provider_quota"
        assert 30 < parked.value.retry_after_s <= 60
    await call(two, OTHER)


async def test_check_available_raises_what_a_call_would_raise_and_sends_no_request(
    replicas: tuple[CircuitBreaker, CircuitBreaker], database: Database
) -> None:
    one, two = replicas
    await one.check_available(ACME)
    with pytest.raises(ProviderKeyRefused):
        await call(one, error=QUOTA)
    with pytest.raises(Parked) as parked:
        await two.check_available(ACME)
    assert parked.value.error_type == "provider_quota"
    await two.check_available(OTHER)
    await time_passes(database)
    for _ in range(2):
        await CircuitBreaker(database, probe_lifetime=timedelta(seconds=60)).check_available(ACME)


async def test_an_answer_is_not_lost_because_it_could_not_be_noted(
    replicas: tuple[CircuitBreaker, CircuitBreaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise AutoReconnect("the primary stepped down")

    with pytest.raises(ProviderUnavailable):
        await call(replicas[0], error=OUTAGE)
    monkeypatch.setattr(circuits, "change", fail)
    await call(replicas[0])


async def test_of_all_replicas_one_probes_whether_the_outage_is_over(
    replicas: tuple[CircuitBreaker, CircuitBreaker], database: Database
) -> None:
    with pytest.raises(ProviderKeyRefused):
        await call(replicas[0], error=QUOTA)
    await time_passes(database)
    asked, answer = 0, asyncio.Event()

    async def probe(replica: CircuitBreaker) -> None:
        nonlocal asked
        async with replica.guard(ACME):
            asked += 1
            await answer.wait()

    probing = [asyncio.create_task(probe(replica)) for replica in replicas for _ in range(5)]
    done: set[asyncio.Task[None]] = set()
    while len(done) < 9:
        done, _ = await asyncio.wait(probing, timeout=0.05)
    assert asked == 1
    assert all(isinstance(task.exception(), Parked) for task in done)
    answer.set()
    await asyncio.wait(probing)
    for replica in (CircuitBreaker(database, probe_lifetime=timedelta(seconds=60)), replicas[0]):
        await call(replica)


async def test_outages_in_different_replicas_add_up_and_an_answer_resets_their_count(
    replicas: tuple[CircuitBreaker, CircuitBreaker], database: Database
) -> None:
    for attempt in range(OUTAGES_TO_OPEN - 1):
        with pytest.raises(ProviderUnavailable):
            await call(replicas[attempt % 2], error=OUTAGE)
    await call(replicas[0])
    for attempt in range(OUTAGES_TO_OPEN):
        with pytest.raises(ProviderUnavailable):
            await call(replicas[attempt % 2], error=OUTAGE)
    with pytest.raises(Parked):
        await call(replicas[0])
    await circuits.reset(database, "acme")
    await call(CircuitBreaker(database, probe_lifetime=timedelta(seconds=60)))


@pytest.mark.parametrize("error", [BatchRefused("no", error_type="text_refused"), ValueError()])
async def test_an_error_that_is_not_an_outage_of_the_provider_does_not_open_the_circuit(
    replicas: tuple[CircuitBreaker, CircuitBreaker], error: Exception
) -> None:
    for _ in range(2 * OUTAGES_TO_OPEN):
        with pytest.raises(type(error)):
            await call(replicas[0], error=error)
    await call(replicas[0])


async def test_a_probe_that_is_cancelled_makes_way_for_another(
    replicas: tuple[CircuitBreaker, CircuitBreaker], database: Database
) -> None:
    with pytest.raises(ProviderKeyRefused):
        await call(replicas[0], error=QUOTA)
    await time_passes(database)
    begun = asyncio.Event()

    async def probe_for_ever() -> None:
        async with replicas[0].guard(ACME):
            begun.set()
            await asyncio.Event().wait()

    probing = asyncio.create_task(probe_for_ever())
    await begun.wait()
    probing.cancel()
    await asyncio.wait([probing])
    await call(replicas[1])


async def test_a_closed_circuit_costs_one_read_a_second(
    replicas: tuple[CircuitBreaker, CircuitBreaker], database: Database
) -> None:
    for _ in range(100):
        await call(replicas[0])
    assert await database[circuits.NAME].count_documents({}) == 0
