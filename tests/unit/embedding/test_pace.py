"""The pace against simulated providers, in virtual time."""

import asyncio
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.embedding.batch_queue import BatchQueue, Delivered, PendingText
from kb_shared.embedding.pace import MOST_AT_ONCE, MOST_NEARBY, Pace
from kb_shared.embedding.purchases import Purpose
from kb_shared.embedding.sub_batches import MAX_TEXTS
from tests.unit.embedding import virtual_time

PURPOSE = Purpose("acme", None, "index", "document")
DEADLINE_S = 60.0


@dataclass
class SimulatedServer:
    """Computes texts one after the other, in the order they came, also those that no caller waits for any more."""

    texts_per_s: float
    distance_s: float = 0.0
    """To the server and back."""
    workers: int = 1
    computed: int = 0
    used: int = 0
    requests: list[int] = field(default_factory=list)
    busy_until: list[float] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0

    async def ask(self, texts: int) -> None:
        clock = asyncio.get_running_loop().time
        self.busy_until = self.busy_until or [0.0] * self.workers
        self.requests.append(texts)
        self.computed += texts
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        worker = min(range(self.workers), key=self.busy_until.__getitem__)
        self.busy_until[worker] = max(clock(), self.busy_until[worker]) + texts / self.texts_per_s
        ends = self.busy_until[worker] + self.distance_s
        try:
            async with asyncio.timeout(DEADLINE_S):
                await asyncio.sleep(ends - clock())
            self.used += texts
        finally:
            self.under_way -= 1


async def embed_documents(
    server: SimulatedServer, sizes: Sequence[int], *, slots: int = 24, known: Pace | None = None, pause_s: float = 0.0
) -> float:
    """Embed documents of so many texts, `slots` of them at once, each again and again until it has all; how long."""
    loop = asyncio.get_running_loop()
    pace = known or Pace(deadline_s=DEADLINE_S)

    async def buy(batch: Sequence[PendingText]) -> None:
        began = loop.time()
        try:
            await server.ask(len(batch))
        except TimeoutError as error:
            pace.timed_out(len(batch))
            for pending in batch:
                pending.delivery.set_exception(error)
                pending.delivery.exception()
            return
        pace.answered(len(batch), seconds=loop.time() - began)
        for pending in batch:
            pending.delivery.set_result(Delivered(np.zeros(1, np.float32), charged=True))

    queue = BatchQueue(buy, pace=pace, patience_s=0.02)
    numbers, dice = count(), random.Random(0)
    free = asyncio.Semaphore(slots)

    async def embed(texts: int) -> None:
        missing = [str(next(numbers)) for _ in range(texts)]
        while missing:
            async with free:
                pending = [queue.add_text(text, text, PURPOSE, nano_usd=0)[0] for text in missing]
                queue.send()
                await asyncio.wait([each.delivery for each in pending])
                for each in pending:
                    queue.leave(each)
                missing = [each.text for each in pending if each.delivery.exception()]
                # As other work on a document takes.
                await asyncio.sleep(dice.random() * pause_s)
            await asyncio.sleep(5 if missing else 0)

    began = loop.time()
    await asyncio.gather(*map(embed, sizes))
    return loop.time() - began


def duration_s(server: SimulatedServer, sizes: Sequence[int], *, pause_s: float = 0.0) -> float:
    return virtual_time.run(lambda: embed_documents(server, sizes, pause_s=pause_s))


@pytest.mark.parametrize("texts_per_s", [1.0, 1.2, 5.0])
def test_nine_tenths_of_the_answers_of_a_slow_provider_are_used_and_everything_is_embedded(texts_per_s: float) -> None:
    server = SimulatedServer(texts_per_s)
    sizes = [120] * 20
    took_s = duration_s(server, sizes)
    assert server.used == sum(sizes)
    assert server.used >= 0.9 * server.computed
    assert took_s <= 1.1 * sum(sizes) / texts_per_s


@given(
    texts_per_s=st.floats(0.3, 2_000),
    distance_s=st.floats(0, 2),
    workers=st.integers(1, 16),
    sizes=st.lists(st.integers(1, 150), min_size=1, max_size=40),
)
def test_whatever_the_provider_is_like_everything_is_embedded_and_nearly_all_that_it_computes_is_used(
    texts_per_s: float, distance_s: float, workers: int, sizes: list[int]
) -> None:
    server = SimulatedServer(texts_per_s, distance_s, workers)
    duration_s(server, sizes)
    assert server.used == sum(sizes)
    assert server.used >= 0.9 * server.computed
    assert max(server.requests) <= MAX_TEXTS
    assert server.most_under_way <= MOST_AT_ONCE


def test_a_provider_that_is_far_away_is_used_fully() -> None:
    """Documents of one text each, half a second a request: with 24 slots hardly more than 40 a second are possible."""
    server = SimulatedServer(texts_per_s=10_000, distance_s=0.5, workers=1_000)
    documents = 1_000
    rate = documents / duration_s(server, [1] * documents, pause_s=0.2)
    assert rate >= 30


def test_a_provider_nearby_gets_full_requests_and_few_at_once() -> None:
    server = SimulatedServer(texts_per_s=5_000, distance_s=0.002)
    sizes = [44] * 200
    duration_s(server, sizes)
    assert server.most_under_way <= MOST_NEARBY
    assert len(server.requests) <= 1.25 * sum(sizes) / MAX_TEXTS


def test_a_provider_that_becomes_slow_loses_what_is_under_way_and_no_more() -> None:
    server = SimulatedServer(texts_per_s=1_000)

    async def scenario() -> None:
        pace = Pace(deadline_s=DEADLINE_S)
        await embed_documents(server, [100] * 20, known=pace)
        server.texts_per_s = 1.0
        before = server.computed
        await embed_documents(server, [100] * 10, known=pace)
        assert server.computed - before <= 1_000 * 1.1 + MOST_NEARBY * MAX_TEXTS
        assert server.most_under_way <= MOST_NEARBY

    virtual_time.run(scenario)


def test_a_provider_that_recovers_gets_full_requests_again() -> None:
    pace = Pace(deadline_s=DEADLINE_S)
    pace.timed_out(8)
    assert (pace.texts, pace.at_once) == (1, 1)
    for _ in range(20):
        pace.answered(pace.texts, seconds=0.05)
    assert (pace.texts, pace.at_once) == (MAX_TEXTS, MOST_NEARBY)


def test_without_a_deadline_a_request_is_always_as_large_as_may_be() -> None:
    pace = Pace(deadline_s=math.inf)
    for seconds in (0.1, 1_000.0, 5.0):
        assert pace.texts == MAX_TEXTS
        pace.answered(MAX_TEXTS, seconds=seconds)
    assert 1 <= pace.at_once <= MOST_AT_ONCE


def test_a_small_request_to_a_far_provider_makes_the_next_no_smaller() -> None:
    pace = Pace(deadline_s=DEADLINE_S)
    for _ in range(10):
        pace.answered(pace.texts, seconds=0.5)
    assert pace.texts == MAX_TEXTS
    pace.answered(1, seconds=0.5)
    assert pace.texts == MAX_TEXTS


def test_an_answer_that_takes_no_time_by_the_clock_is_a_fast_one() -> None:
    pace = Pace(deadline_s=DEADLINE_S)
    pace.answered(1, seconds=0.0)
    assert pace.texts == MAX_TEXTS
    pace.answered(MAX_TEXTS, seconds=20.0)
    assert pace.texts < MAX_TEXTS
