"""The real limiter and the real updates, on a virtual clock."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.errors import Parked
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.rate_limits import BURST_S, Bucket
from kb_shared.providers.rate_limiter import BLOCK_S, FRESH_S, LIFETIME_S, LONGEST_PAUSE_S, RateLimiter
from tests.unit.embedding.simulated_mongo import SimulatedMongo
from tests.unit.embedding.virtual_time import freeze, run

PATIENCE_S = 1e6
CLOCK_S = 0.001
"""The server counts in milliseconds."""


def bucket(requests_per_minute: int | None = None, tokens_per_minute: int | None = None) -> Bucket:
    return Bucket("acme", "model/m", requests_per_minute, tokens_per_minute, closable=True)


@dataclass(frozen=True, slots=True)
class SpentUnits:
    at: float
    requests: int
    tokens: int
    asked_at: float
    replica: int


@dataclass
class ReplicaSimulation:
    """Some replicas on one MongoDB, and what they spent."""

    replicas: int
    latency_s: float = 0.0
    spent: list[SpentUnits] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mongo = SimulatedMongo(latency_s=self.latency_s)
        self.limiters = [RateLimiter(self.mongo.as_database()) for _ in range(self.replicas)]

    async def spend(
        self, replica: int, of: Bucket, *, requests: int = 1, tokens: int = 0, after_s: float = 0.0
    ) -> SpentUnits:
        await asyncio.sleep(after_s)
        asked_at = now()
        await self.limiters[replica].reserve(of, requests=requests, tokens=tokens, patience_s=PATIENCE_S)
        self.spent.append(SpentUnits(now(), requests, tokens, asked_at, replica))
        return self.spent[-1]


def now() -> float:
    return asyncio.get_running_loop().time()


def assert_within(spent: list[tuple[float, int]], *, per_minute: int, largest: float, late_s: float) -> None:
    """In no stretch of time was more spent than the limit allows in it and `largest`."""
    per_s = per_minute / 60
    spent = sorted(spent)
    # The most over the limit that ends here: like the level of a bucket that leaks.
    over, before = 0.0, 0.0
    for at, amount in spent:
        over = max(0.0, over - (at - before) * per_s) + amount
        before = at
        assert over <= largest + per_s * (late_s + 2 * CLOCK_S) + 1e-6


asks = st.lists(
    st.tuples(
        st.integers(0, 3),  # replica
        st.floats(0, 20),  # after so many seconds
        st.integers(1, 5),  # requests
        st.integers(0, 2_000),  # tokens
        st.one_of(st.none(), st.floats(0, 5)),  # cancelled after so many seconds
    ),
    min_size=1,
    max_size=40,
)


@given(asks=asks, limits=st.tuples(st.integers(6, 600), st.integers(600, 60_000)), latency_s=st.sampled_from([0, 0.01]))
def test_no_more_is_spent_than_the_limits_allow_in_any_order_of_requests_and_cancellations(
    asks: list[tuple[int, float, int, int, float | None]], limits: tuple[int, int], latency_s: float
) -> None:
    simulation = ReplicaSimulation(replicas=4, latency_s=latency_s)
    of = bucket(*limits)

    async def one(replica: int, after_s: float, requests: int, tokens: int, cancelled_after_s: float | None) -> None:
        spending = simulation.spend(replica, of, requests=requests, tokens=tokens, after_s=after_s)
        timeout_s = None if cancelled_after_s is None else after_s + cancelled_after_s
        try:
            await asyncio.wait_for(spending, timeout_s)
        except TimeoutError:
            return

    async def main() -> None:
        await asyncio.gather(*(one(*ask) for ask in asks))
        await asyncio.gather(*(limiter.wait_for_returns() for limiter in simulation.limiters))

    run(main)
    # What a cancelled one leaves to the next in its line may be spent that much later.
    late_s = latency_s + (LIFETIME_S if any(ask[4] is not None for ask in asks) else 0)
    largest_requests = max(limits[0] / 60 * BURST_S, *(ask[2] for ask in asks), 0)
    largest_tokens = max(limits[1] / 60 * BURST_S, *(ask[3] for ask in asks), 0)
    assert_within(
        [(each.at, each.requests) for each in simulation.spent],
        per_minute=limits[0],
        largest=largest_requests,
        late_s=late_s,
    )
    assert_within(
        [(each.at, each.tokens) for each in simulation.spent],
        per_minute=limits[1],
        largest=largest_tokens,
        late_s=late_s,
    )
    assert len(simulation.spent) >= sum(ask[4] is None for ask in asks), "every request is served"


def test_a_burst_and_the_lateness_of_spending_are_one_second_of_the_rate_together() -> None:
    assert BURST_S + LIFETIME_S <= 1


@pytest.mark.parametrize("per_minute", [60, 3_000, 60_000])
def test_twenty_four_replicas_are_served_alike_and_the_limit_is_used_up(per_minute: int) -> None:
    simulation = ReplicaSimulation(replicas=24, latency_s=0.002)
    of = bucket(per_minute)
    each = max(4, per_minute // 60 // 24 * 10)

    async def main() -> None:
        await asyncio.gather(*(simulation.spend(replica, of) for replica in range(24) for _ in range(each)))

    run(main)
    per_s = per_minute / 60
    total = 24 * each
    last = max(spent.at for spent in simulation.spent)
    assert total / per_s - 1 <= last <= total / per_s * 1.05 + 1
    for replica in range(24):
        own = sorted(spent.at for spent in simulation.spent if spent.replica == replica)
        for place, at in enumerate(own, start=1):
            # All replicas have an equal share, and turns go round block by block.
            fair = 24 * place / per_s + 24 * max(BLOCK_S, 1 / per_s)
            assert at <= 2 * fair
    assert_within([(spent.at, 1) for spent in simulation.spent], per_minute=per_minute, largest=per_s, late_s=0.002)


def test_in_a_process_the_first_to_come_is_the_first_served() -> None:
    simulation = ReplicaSimulation(replicas=1)
    of = bucket(60)

    async def main() -> list[float]:
        spent = await asyncio.gather(*(simulation.spend(0, of, after_s=place / 1000) for place in range(10)))
        return [each.at for each in spent]

    served = run(main)
    assert served == sorted(served)
    assert served[-1] == pytest.approx(9, abs=1)


def test_one_small_ask_is_not_held_up_by_the_long_lines_of_others() -> None:
    simulation = ReplicaSimulation(replicas=24, latency_s=0.002)
    of = bucket(6_000)

    async def main() -> SpentUnits:
        busy = [asyncio.create_task(simulation.spend(replica, of)) for replica in range(1, 24) for _ in range(100)]
        late = await simulation.spend(0, of, after_s=5)
        await asyncio.gather(*busy)
        return late

    late = run(main)
    assert late.at - late.asked_at <= 2 * 24 * BLOCK_S


def test_an_ask_larger_than_the_bucket_goes_when_it_is_full_and_the_others_wait_for_it() -> None:
    simulation = ReplicaSimulation(replicas=2)
    of = bucket(tokens_per_minute=6_000)

    async def main() -> tuple[SpentUnits, SpentUnits, SpentUnits]:
        small = await simulation.spend(0, of, tokens=40)
        large = await simulation.spend(0, of, tokens=1_000)
        after = await simulation.spend(1, of, tokens=50)
        return small, large, after

    small, large, after = run(main)
    assert small.at == 0
    assert large.at == pytest.approx(0.4, abs=0.01)
    assert after.at == pytest.approx(0.4 + 10, abs=0.01)


def test_many_small_asks_of_a_process_take_few_commands() -> None:
    simulation = ReplicaSimulation(replicas=1)
    of = bucket(60_000)

    async def main() -> None:
        await asyncio.gather(*(simulation.spend(0, of) for _ in range(5_000)))

    run(main)
    assert simulation.mongo.commands < 5_000 / 40


def test_a_pause_holds_for_all_replicas_and_no_request_loses_its_place() -> None:
    simulation = ReplicaSimulation(replicas=3)
    of = bucket(60)

    async def main() -> None:
        waiting = [
            asyncio.create_task(simulation.spend(replica, of, after_s=(replica + 3 * turn) / 1000))
            for turn in range(5)
            for replica in range(3)
        ]
        await asyncio.sleep(3.5)
        await simulation.limiters[0].close(of, 20)
        await simulation.limiters[1].close(of, 10)
        await asyncio.gather(*waiting)

    run(main)
    times = [spent.at for spent in simulation.spent]
    assert not [at for at in times if 3.5 + FRESH_S < at < 23.5]
    assert max(times) == pytest.approx(14 + 20, abs=1.1), "the pause was not counted twice, and no place was lost"
    assert_within([(at, 1) for at in times], per_minute=60, largest=1, late_s=0)


def test_a_pause_holds_where_there_is_no_limit() -> None:
    simulation = ReplicaSimulation(replicas=2)
    of = bucket()

    async def main() -> tuple[SpentUnits, SpentUnits, SpentUnits]:
        await simulation.spend(1, of)
        await simulation.limiters[0].close(of, 30)
        return await asyncio.gather(
            simulation.spend(0, of),
            simulation.spend(1, of, after_s=FRESH_S + 0.01),
            simulation.spend(1, of, after_s=40),
        )

    own, others, later = run(main)
    assert own.at == pytest.approx(30, abs=0.01)
    assert others.at == pytest.approx(30, abs=0.01)
    assert later.at == later.asked_at


def test_a_provider_can_not_pause_its_requests_for_ever() -> None:
    simulation = ReplicaSimulation(replicas=1)
    of = bucket()

    async def main() -> SpentUnits:
        await simulation.limiters[0].close(of, 1e15)
        return await simulation.spend(0, of)

    assert run(main).at == pytest.approx(LONGEST_PAUSE_S, abs=1)


def test_a_bucket_without_limit_and_pause_costs_no_command() -> None:
    simulation = ReplicaSimulation(replicas=1)

    run(lambda: simulation.spend(0, Bucket.of_knowledge_base(KnowledgeBaseKey("acme", "0" * 24), {}), tokens=10))
    assert simulation.mongo.commands == 0


@pytest.mark.parametrize("cancelled_at", [0.001, 0.5, 3.0])
def test_a_cancelled_request_returns_its_tokens(cancelled_at: float) -> None:
    simulation = ReplicaSimulation(replicas=2, latency_s=0.01)
    of = bucket(tokens_per_minute=6_000)

    async def main() -> SpentUnits:
        await simulation.spend(0, of, tokens=400)
        impatient = [asyncio.create_task(simulation.spend(0, of, tokens=5_000)) for _ in range(3)]
        await asyncio.sleep(cancelled_at)
        for task in impatient:
            task.cancel()
        await asyncio.gather(*impatient, return_exceptions=True)
        await simulation.limiters[0].wait_for_returns()
        return await simulation.spend(1, of, tokens=50)

    after = run(main)
    assert after.at <= 5, "not the fifty seconds that the others were worth"


def test_those_behind_one_that_gives_up_move_up() -> None:
    simulation = ReplicaSimulation(replicas=1)
    of = bucket(60)

    async def main() -> SpentUnits:
        tasks = [asyncio.create_task(simulation.spend(0, of)) for _ in range(10)]
        await asyncio.sleep(0.9)
        for task in tasks[:-1]:
            task.cancel()
        return await tasks[-1]

    assert run(main).at <= 2


def test_a_request_that_would_wait_too_long_is_refused_at_once_and_takes_nothing() -> None:
    simulation = ReplicaSimulation(replicas=2)
    of = bucket(tokens_per_minute=6_000)

    async def main() -> tuple[float, float, SpentUnits]:
        await simulation.spend(0, of, tokens=1_000)
        with pytest.raises(Parked) as parked:
            await simulation.limiters[1].reserve(of, tokens=6_000, patience_s=5)
        return now(), parked.value.retry_after_s, await simulation.spend(1, of, tokens=50)

    refused_at, retry_after_s, after = run(main)
    assert refused_at == 0
    assert retry_after_s == pytest.approx(10, abs=0.1)
    assert after.at == pytest.approx(10, abs=0.1)


def test_a_request_that_stands_in_line_too_long_is_refused() -> None:
    simulation = ReplicaSimulation(replicas=1)
    of = bucket(6)

    async def main() -> float:
        first = [asyncio.create_task(simulation.spend(0, of)) for _ in range(3)]
        await asyncio.sleep(0.1)
        with pytest.raises(Parked):
            await simulation.limiters[0].reserve(of, patience_s=5)
        refused_at = now()
        await asyncio.gather(*first)
        return refused_at

    assert run(main) == pytest.approx(5.1, abs=0.1)


@pytest.mark.parametrize("of", [bucket(), bucket(6_000, 6_000_000)])
def test_a_slow_answer_of_mongo_is_not_taken_for_a_limit_that_is_used_up(of: Bucket) -> None:
    async def main() -> None:
        limiter = RateLimiter(SimulatedMongo(latency_s=1.0).as_database())
        await limiter.reserve(of, patience_s=0.2)

    run(main)


def test_where_nothing_is_limited_those_behind_a_slow_answer_of_mongo_go_on_too() -> None:
    async def main() -> None:
        limiter = RateLimiter(SimulatedMongo(latency_s=1.0).as_database())
        await asyncio.gather(*(limiter.reserve(bucket(), patience_s=0.2) for _ in range(3)))
        assert now() == 1.0

    run(main)


def test_a_replica_that_dies_costs_the_others_a_block_at_most() -> None:
    simulation = ReplicaSimulation(replicas=2)
    of = bucket(600)

    async def main() -> SpentUnits:
        for _ in range(50):
            asyncio.create_task(simulation.spend(0, of))  # noqa: RUF006  # dies with its replica
        await asyncio.sleep(1)
        # It never comes back, so its reservation is not given back either.
        simulation.mongo.commands = 0
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        simulation.limiters[0]._run_in_background = lambda giving_back: giving_back.close()  # type: ignore[method-assign]  # dead
        return await simulation.spend(1, of)

    assert run(main).at <= 1 + BURST_S + BLOCK_S + 0.1


def test_replicas_that_were_stopped_do_not_spend_their_overdue_units_all_at_once() -> None:
    simulation = ReplicaSimulation(replicas=24)
    of = bucket(60)

    async def main() -> None:
        spending = [asyncio.create_task(simulation.spend(replica, of)) for replica in range(24)]
        await asyncio.sleep(0.5)
        freeze(60)
        await asyncio.gather(*spending)

    run(main)
    assert_within([(spent.at, 1) for spent in simulation.spent], per_minute=60, largest=1, late_s=LIFETIME_S)


@pytest.mark.parametrize("jump_s", [-3600, -1, 1, 3600])
def test_a_jump_of_the_servers_clock_stops_no_request_and_lets_through_a_burst_at_most(jump_s: float) -> None:
    simulation = ReplicaSimulation(replicas=4)
    of = bucket(600)

    async def main() -> None:
        spending = [asyncio.create_task(simulation.spend(replica, of)) for replica in range(4) for _ in range(50)]
        await asyncio.sleep(7)
        simulation.mongo.jump_s = jump_s
        await asyncio.gather(*spending)

    run(main)
    assert max(spent.at for spent in simulation.spent) <= 200 / 10 + 0.2
    # The burst it holds, the burst that the jump filled up, and a block of each replica.
    assert_within([(spent.at, 1) for spent in simulation.spent], per_minute=600, largest=5 + 5 + 4, late_s=0)


def test_a_failure_of_mongo_reaches_who_waits_and_the_next_ones_are_served() -> None:
    simulation = ReplicaSimulation(replicas=1)
    of = bucket(60)

    async def main() -> None:
        answered, simulation.mongo.find_one_and_update = simulation.mongo.find_one_and_update, _broken  # type: ignore[method-assign]  # an outage
        with pytest.raises(ConnectionError):
            await simulation.spend(0, of)
        simulation.mongo.find_one_and_update = answered  # type: ignore[method-assign]  # over
        await simulation.spend(0, of)

    run(main)


async def _broken(*_args: object, **_options: object) -> dict[str, object]:
    raise ConnectionError


def test_empty_lines_are_forgotten() -> None:
    simulation = ReplicaSimulation(replicas=1)

    async def main() -> int:
        for kb in range(1_200):
            await simulation.spend(0, Bucket("acme", f"kb/{kb}", 60))
        return len(simulation.limiters[0]._lines)

    assert run(main) <= 1_000
