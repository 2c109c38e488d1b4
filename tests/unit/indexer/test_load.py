"""Documents on a database that has too little CPU for them, in virtual time."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from pymongo.errors import AutoReconnect

from kb_indexer.consumer.load import (
    FIRST,
    FIRST_WHEN_QUICK,
    LONGEST_BATCH_S,
    EventThrottle,
    Load,
    first_documents,
    load_of_documents,
    load_of_events,
)
from kb_shared.errors import TransactionExpired
from kb_shared.kafka.partition_assignment import PartitionAssignment, RecordWork
from kb_shared.kafka.record import OrderingKey, Record, TopicPartition
from kb_shared.kafka.scheduling import Lane
from tests.unit.embedding import virtual_time
from tests.unit.kafka.fakes import TOPIC, FakeBroker, FakeDeadLetters, record

MOST = 32
LIFETIME_S = 5.0
_TICK_S = 0.05


@dataclass
class SimulatedDatabase:
    """Shares its CPU between all transactions that are open, and ends those that are too old."""

    seconds_each: float
    """CPU seconds of one transaction."""
    under_way: int = 0
    most_under_way: int = 0
    runs: Counter[str] = field(default_factory=Counter)

    async def swap(self, document: str) -> None:
        self.runs[document] += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        began = asyncio.get_running_loop().time()
        left_s = self.seconds_each
        try:
            while left_s > 0:
                await asyncio.sleep(_TICK_S)
                left_s -= _TICK_S / self.under_way
                if asyncio.get_running_loop().time() - began > LIFETIME_S:
                    raise TransactionExpired("too old")
        finally:
            self.under_way -= 1


@dataclass
class IndexerModel:
    """Model of one process that handles commands, as far as it matters here."""

    database: SimulatedDatabase
    load: Load
    on_done: Callable[[str], None]
    done: list[str] = field(default_factory=list)

    def ordering_key(self, record: Record) -> OrderingKey:
        organization, _, document = (record.key or b"").decode().partition("/")
        return OrderingKey(organization_id=organization, group="kb", key=document)

    async def handle(self, record: Record) -> None:
        document = (record.key or b"").decode()
        with self.load.at_work():
            await asyncio.sleep(random.Random(document).uniform(0.01, 0.1))
            with self.load.timed():
                await self.database.swap(document)
        self.done.append(document)
        self.on_done(document)


async def index(
    database: SimulatedDatabase,
    documents: list[str],
    *,
    adaptive: bool,
    replicas: int = 1,
    within_s: float,
    load: Load | None = None,
) -> list[IndexerModel]:
    """Index documents that come all at once, spread over replicas, until all are done or the time is over."""
    all_done = asyncio.Event()
    left = set(documents)

    def note_done(document: str) -> None:
        left.discard(document)
        if not left:
            all_done.set()

    indexers = [
        IndexerModel(database, load or load_of_documents(most=MOST, lifetime_s=LIFETIME_S), note_done)
        for _ in range(replicas)
    ]
    partition = TopicPartition(TOPIC, 0)
    assignments = [
        PartitionAssignment(
            RecordWork(
                indexer,
                FakeDeadLetters(),
                max_in_flight=MOST,
                per_group=MOST,
                max_replay=1_000,
                max_held_bytes=10**9,
                limit=indexer.load.limit if adaptive else None,
            ),
            {partition: Lane.LIVE},
            commit=FakeBroker().commit,
            on_progress=lambda: None,
            on_failure=_fail,
        )
        for indexer in indexers
    ]
    for number, assignment in enumerate(assignments):
        assignment.admit(record(offset, key) for offset, key in enumerate(documents[number::replicas]))
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await all_done.wait()
    for assignment in assignments:
        await assignment.close(drain_s=0)
    return indexers


def _fail(error: BaseException) -> None:
    raise error


def documents(number: int, *organizations: str) -> list[str]:
    names = organizations or ("acme", "bolt", "core")
    return [f"{names[n % len(names)]}/{n}" for n in range(number)]


@pytest.mark.parametrize(("seconds_each", "replicas"), [(0.3, 1), (0.8, 1), (2.0, 1), (0.3, 3), (1.0, 3)])
def test_with_too_little_cpu_every_document_is_done_and_none_is_written_more_than_twice(
    seconds_each: float, replicas: int
) -> None:
    database = SimulatedDatabase(seconds_each)
    wanted = documents(60)
    indexers = virtual_time.run(
        lambda: index(database, wanted, adaptive=True, replicas=replicas, within_s=60 * seconds_each * 1.5 + 30)
    )
    assert sorted(each for indexer in indexers for each in indexer.done) == sorted(wanted)
    assert max(database.runs.values()) <= 2
    assert sum(database.runs.values()) <= 1.2 * len(wanted)


def test_with_too_little_cpu_and_a_fixed_number_at_once_hardly_anything_is_done() -> None:
    """Show the need for adaptation: the same documents on the same database without it."""
    database = SimulatedDatabase(0.8)
    [indexer] = virtual_time.run(lambda: index(database, documents(60), adaptive=False, within_s=60))
    assert len(indexer.done) < 15, "alone they would take 48 s"
    assert max(database.runs.values()) > 5


def test_a_machine_that_suddenly_becomes_slow_loses_what_is_under_way_once() -> None:
    database = SimulatedDatabase(0.01)

    async def scenario() -> None:
        load = load_of_documents(most=MOST, lifetime_s=LIFETIME_S)
        await index(database, documents(200), adaptive=True, within_s=60, load=load)
        assert load.limit() == MOST
        database.runs.clear()
        database.seconds_each = 0.6
        [indexer] = await index(database, documents(60), adaptive=True, within_s=120, load=load)
        assert len(indexer.done) == 60

    virtual_time.run(scenario)
    assert max(database.runs.values()) <= 2


def test_a_machine_that_is_quick_again_is_used_fully() -> None:
    async def scenario() -> None:
        load = load_of_documents(most=MOST, lifetime_s=LIFETIME_S)
        database = SimulatedDatabase(2.0)
        await index(database, documents(10), adaptive=True, within_s=60, load=load)
        assert load.limit() <= 2
        database.seconds_each = 0.01
        await index(database, documents(2_000), adaptive=True, within_s=200, load=load)
        assert load.limit() == MOST

    virtual_time.run(scenario)


def test_a_quick_machine_is_used_fully_almost_at_once() -> None:
    async def scenario() -> None:
        load = load_of_documents(most=MOST, lifetime_s=LIFETIME_S)
        assert load.limit() == FIRST
        await index(SimulatedDatabase(0.005), documents(100), adaptive=True, within_s=60, load=load)
        assert load.limit() == MOST

    virtual_time.run(scenario)


def test_with_one_document_at_a_time_organizations_still_take_turns() -> None:
    """One of them has forty documents in the queue before those of the others."""
    database = SimulatedDatabase(2.0)
    load = load_of_documents(most=MOST, lifetime_s=LIFETIME_S)
    load.lease_ran_out()
    wanted = [*documents(40, "busy"), "small/1", "small/2", "other/1"]
    [indexer] = virtual_time.run(lambda: index(database, wanted, adaptive=True, within_s=300, load=load))
    assert max(indexer.done.index(each) for each in ("small/1", "small/2", "other/1")) <= 8


def test_while_documents_wait_one_event_begins_for_each_that_ends() -> None:
    async def scenario() -> None:
        events, documents = load_of_events(most=MOST), load_of_documents(most=MOST, lifetime_s=LIFETIME_S)
        beside = EventThrottle(events=events, documents=documents)
        assert beside.limit() == events.limit(), "nothing waits"
        with documents.at_work(), documents.at_work():
            for _ in range(events.limit()):
                _end(events)
            assert beside.limit() == 1, "what might have begun has ended; one more, so that events do not stop"
            for _ in range(3):
                _end(documents)
            assert beside.limit() == 3
            with events.at_work():
                assert beside.limit() == 3, "one of them runs"
            assert beside.limit() == 2
            for _ in range(100):
                _end(documents)
            assert beside.limit() == events.limit(), "never more than events may anyway"
        assert beside.limit() == events.limit()

    virtual_time.run(scenario)


def test_while_documents_wait_events_begin_when_the_last_batch_has_ended() -> None:
    async def scenario() -> list[tuple[float, str]]:
        began: list[tuple[float, str]] = []
        events, documents = load_of_events(most=MOST), load_of_documents(most=MOST, lifetime_s=LIFETIME_S)
        beside = EventThrottle(events=events, documents=documents)

        async def event(name: str, *, after_s: float, takes_s: float) -> None:
            await asyncio.sleep(after_s)
            await beside.until_next_batch()
            began.append((asyncio.get_running_loop().time(), name))
            with events.at_work():
                await asyncio.sleep(takes_s)

        with documents.at_work(), documents.at_work():
            async with asyncio.TaskGroup() as group:
                group.create_task(event("first", after_s=0, takes_s=0.5))
                group.create_task(event("second", after_s=0.1, takes_s=0.5))
                group.create_task(event("third", after_s=0.2, takes_s=100))
                group.create_task(event("fourth", after_s=0.7, takes_s=0.5))
        assert not documents.is_used
        async with asyncio.TaskGroup() as group:
            group.create_task(event("fifth", after_s=0, takes_s=0.5))
            group.create_task(event("sixth", after_s=0.1, takes_s=0.5))
        return [(round(at_s, 1), name) for at_s, name in began]

    assert virtual_time.run(scenario) == [
        (0.0, "first"),
        (0.5, "second"),
        (0.5, "third"),
        (0.7 + LONGEST_BATCH_S, "fourth"),
        (100.5, "fifth"),
        (100.6, "sixth"),
    ]


def test_a_document_that_is_a_little_late_takes_little_of_the_limit_and_an_event_half() -> None:
    async def scenario() -> tuple[int, int]:
        documents = load_of_documents(most=100, first=100, lifetime_s=80)
        events = load_of_events(most=100, first=100)
        with documents.timed():
            await asyncio.sleep(10.1)
        with events.timed():
            await asyncio.sleep(2.6)
        return documents.limit(), events.limit()

    assert virtual_time.run(scenario) == (80, 400)


def _end(load: Load) -> None:
    with load.at_work():
        pass


@dataclass
class FakePing:
    """Answers each ping after so many seconds."""

    answers_s: list[float]

    async def command(self, _name: str) -> None:
        seconds = self.answers_s.pop(0)
        if seconds < 0:
            raise AutoReconnect("away")
        await asyncio.sleep(seconds)


@pytest.mark.parametrize(
    ("answers_s", "first"),
    [
        ([0.1, 0, 0, 0, 0, 0], FIRST_WHEN_QUICK),
        ([0, 0, 0, 0, 0, 0.02], FIRST),
        ([0, 0, -1], FIRST),
    ],
)
async def test_an_indexer_begins_with_more_where_mongo_answers_at_once(answers_s: list[float], first: int) -> None:
    assert await first_documents(cast("Any", FakePing(answers_s))) == first
