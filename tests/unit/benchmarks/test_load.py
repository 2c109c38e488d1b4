import asyncio
import random
from collections import Counter, defaultdict
from itertools import pairwise
from statistics import mean
from time import perf_counter

import pytest

from benchmarks.corpus.documents import RealDocument
from benchmarks.load.arrivals import ZipfChoice, poisson_times
from benchmarks.load.open_loop import OpenLoop
from benchmarks.load.population import EVENT_KINDS, DocumentPopulation, LoadPartition
from benchmarks.load.queries import QueryPool
from benchmarks.load.statistics import CallStatistics, LatencyHistogram
from kb_contracts.documents import DocumentEvent
from tests.chaos.oracle import derive_expected
from tests.waiting import until

SOURCES = [
    RealDocument(f"source-{number}", f"Source {number}", "en", ("doc", "doc.main"), f"Text {number} of a page.")
    for number in range(5)
]
PARTITIONS = [LoadPartition(f"org-{number % 2}", f"kb-{number}", f"tag-{number}") for number in range(4)]


def test_arrivals_are_as_many_as_asked_and_independent_of_each_other() -> None:
    times = list(poisson_times(50, seconds=200, dice=random.Random(1)))
    gaps = [later - earlier for earlier, later in pairwise(times)]

    assert len(times) == pytest.approx(10_000, rel=0.05)
    assert times == sorted(times)
    assert 0 < times[0] < times[-1] < 200
    # Of an exponential distribution: the standard deviation is the mean.
    assert mean((gap - 0.02) ** 2 for gap in gaps) ** 0.5 == pytest.approx(0.02, rel=0.1)


def test_a_rate_of_zero_has_no_arrivals() -> None:
    assert list(poisson_times(0, seconds=10, dice=random.Random(1))) == []


def test_the_second_choice_of_zipf_is_half_as_frequent_as_the_first() -> None:
    choice, dice = ZipfChoice(skew=1.0), random.Random(1)

    counts = Counter(choice.choose(100, dice) for _ in range(20_000))

    assert counts[0] / counts[1] == pytest.approx(2, rel=0.15)
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.3)
    assert max(counts) < 100


def test_without_skew_all_choices_are_equally_frequent() -> None:
    choice, dice = ZipfChoice(skew=0.0), random.Random(1)
    choice.choose(50, dice)

    counts = Counter(choice.choose(4, dice) for _ in range(8_000))

    assert set(counts) == {0, 1, 2, 3}
    assert min(counts.values()) > 0.9 * max(counts.values())


async def test_calls_begin_at_their_times_while_earlier_ones_are_unanswered() -> None:
    begun, answered = [], asyncio.Event()

    async def act(due: float) -> None:
        begun.append(due)
        if len(begun) == 3:
            answered.set()
        await answered.wait()

    await OpenLoop(max_in_flight=10).run([0.0, 0.001, 0.002], act, began=perf_counter())

    assert len(begun) == 3


async def test_a_call_gets_its_scheduled_time_even_if_it_begins_late() -> None:
    dues = []

    async def act(due: float) -> None:
        dues.append(due)

    began = perf_counter() - 5
    loop = OpenLoop(max_in_flight=10)
    await loop.run([1.0, 2.0], act, began=began)

    assert dues == [began + 1, began + 2]
    assert loop.lag.percentile_ms(0) > 2_900


async def test_a_generator_that_begins_calls_late_says_that_the_result_is_invalid() -> None:
    async def act(_due: float) -> None:
        pass

    late, punctual = OpenLoop(max_in_flight=10), OpenLoop(max_in_flight=10)
    await late.run([0.0, 0.0], act, began=perf_counter() - 120)
    await punctual.run([0.0, 0.0], act, began=perf_counter())

    assert len(late.problems(max_lag_ms=60_000)) == 1
    assert punctual.problems(max_lag_ms=60_000) == []


async def test_calls_above_the_limit_in_flight_are_counted_and_make_the_result_invalid() -> None:
    ended = asyncio.Event()

    async def act(_due: float) -> None:
        await ended.wait()

    loop = OpenLoop(max_in_flight=2)
    running = asyncio.create_task(loop.run([0.0] * 5, act, began=perf_counter()))
    await until(lambda: loop.begun + loop.not_made == 5)
    ended.set()
    await running

    assert (loop.begun, loop.not_made) == (2, 3)
    assert "3 calls were not made" in loop.problems(max_lag_ms=60_000)[0]


def test_percentiles_are_those_of_the_recorded_times() -> None:
    histogram = LatencyHistogram()
    for milliseconds in range(1, 1_001):
        histogram.record(milliseconds / 1_000)

    figures = histogram.figures()

    assert figures["count"] == 1_000
    for name, expected in {"p50_ms": 500, "p90_ms": 900, "p99_ms": 990, "p99_9_ms": 999, "max_ms": 1_000}.items():
        assert figures[name] == pytest.approx(expected, rel=0.002)


def test_what_was_answered_after_the_end_lowers_the_rate_of_successes() -> None:
    statistics = CallStatistics()
    for _ in range(90):
        statistics.latencies.record(0.1)
    statistics.errors["503 index-not-ready"] += 10

    figures = statistics.figures(arrived_in_s=10, answered_in_s=30)

    assert figures["arrived_per_s"] == 10
    assert figures["succeeded_per_s"] == 3
    assert figures["errors"] == {"503 index-not-ready": 10}


@pytest.mark.parametrize("seed", range(5))
def test_expected_members_are_those_that_the_published_events_result_in(seed: int) -> None:
    population = _population(seed)
    events: dict[tuple[str, str], list[DocumentEvent]] = defaultdict(list)
    for _ in range(300):
        event = population.plan_event().event
        events[event.organization_id, event.document_id].append(event)

    for partition in PARTITIONS:
        expected = {
            document_id: (of_events.text.revision, of_events.tag_ids)
            for (organization_id, document_id), published in events.items()
            if organization_id == partition.organization_id
            for of_events in [derive_expected(published)]
            if of_events.text is not None and partition.tag_id in of_events.tag_ids
        }
        members = population.expected_members(partition)
        assert {i: (each.text_revision, frozenset(each.tag_ids)) for i, each in members.items()} == expected
    assert any(len(each.tag_ids) > 1 for each in population.expected_members(PARTITIONS[0]).values())


def test_a_steady_population_keeps_its_number_of_documents_and_of_memberships() -> None:
    population = _population(1, steady_at=100)
    for _ in range(100):
        population.plan_creation(population.choose_partition())
    memberships = []
    for _ in range(2_000):
        population.plan_event()
        assert 99 <= sum(map(len, population.documents.values())) <= 101
        memberships.append(sum(len(population.expected_members(partition)) for partition in PARTITIONS))

    assert mean(memberships[:500]) == pytest.approx(mean(memberships[-500:]), rel=0.1)


def test_each_text_has_a_marker_of_its_own() -> None:
    population = _population(2)
    planned = [each for each in (population.plan_event() for _ in range(200)) if each.marker is not None]

    markers = [each.marker for each in planned]

    assert len(set(markers)) == len(markers) > 100
    assert all(each.marker in each.event.text for each in planned if hasattr(each.event, "text"))


def test_all_kinds_of_events_come_and_hot_knowledge_bases_get_more() -> None:
    population = _population(3)
    planned = [population.plan_event() for _ in range(500)]

    kinds = Counter(each.kind for each in planned)
    homes = Counter(each.document.home.kb_id for each in planned)

    assert set(kinds) == set(EVENT_KINDS)
    assert homes["kb-0"] > 2 * homes["kb-3"]


def test_searches_have_the_modes_and_filters_that_were_asked_for() -> None:
    pool = QueryPool(queries_of_kb=50, skew=1.0, modes={"hybrid": 3, "text": 1}, filtered=0.5, dice=random.Random(1))
    pool.fill(PARTITIONS[0], ["one two three four five six seven eight nine ten"])

    requests = [pool.next_request(PARTITIONS[0]) for _ in range(1_000)]

    modes = Counter(request["mode"] for request in requests)
    assert modes["hybrid"] / modes["text"] == pytest.approx(3, rel=0.25)
    assert sum("metadata_filter" in request for request in requests) == pytest.approx(500, rel=0.15)
    assert all(len(request["query"].split()) == 5 for request in requests)


def _population(seed: int, *, steady_at: int | None = None) -> DocumentPopulation:
    return DocumentPopulation(
        PARTITIONS,
        SOURCES,
        dict.fromkeys(EVENT_KINDS, 1.0),
        skew=1.0,
        dice=random.Random(seed),
        steady_at=steady_at,
    )
