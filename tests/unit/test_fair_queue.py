"""Turns of organizations that call at the same time, and of one that calls alone."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_shared.concurrency.fair_queue import ACTIVE_S, FairQueue, pause_turn
from tests.waiting import BRAKE_S

MANY = 20


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Requests:
    """Requests that last until they are ended, and how many of each organization are processed."""

    def __init__(self, queue: FairQueue) -> None:
        self._queue = queue
        self._ends: dict[str, list[asyncio.Event]] = {}
        self.active: Counter[str] = Counter()
        self.order: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def begin(self, organization_id: str, *, name: str = "") -> asyncio.Task[None]:
        async def request() -> None:
            end = asyncio.Event()
            async with self._queue.take_turn(organization_id):
                self.order.append(name)
                self.active[organization_id] += 1
                self._ends.setdefault(organization_id, []).append(end)
                try:
                    await end.wait()
                finally:
                    self.active[organization_id] -= 1

        task = asyncio.create_task(request())
        self.tasks.append(task)
        await settled()
        return task

    async def end_one(self, organization_id: str) -> None:
        self._ends[organization_id].pop(0).set()
        await settled()


async def settled() -> None:
    """Let all tasks go on until each waits for something."""
    for _ in range(5):
        await asyncio.sleep(0)
    # As long as the shortest timer takes.
    await asyncio.sleep(0.002)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> FairQueue:
    return FairQueue(max_active=2, clock=clock)


@pytest.fixture
async def requests(queue: FairQueue) -> AsyncIterator[Requests]:
    requests = Requests(queue)
    yield requests
    for task in requests.tasks:
        task.cancel()
    await asyncio.gather(*requests.tasks, return_exceptions=True)


async def test_an_organization_that_calls_alone_never_waits(requests: Requests) -> None:
    for _ in range(MANY):
        await requests.begin("acme")
    assert requests.active["acme"] == MANY


async def test_while_another_organization_calls_few_requests_are_processed_and_the_others_wait(
    requests: Requests,
) -> None:
    await requests.begin("other")
    for _ in range(MANY):
        await requests.begin("acme")
    assert requests.active["acme"] == 2
    for _ in range(MANY - 2):
        await requests.end_one("acme")
        assert requests.active["acme"] == 2


async def test_requests_of_other_organizations_wait_for_none_of_them(requests: Requests) -> None:
    for _ in range(MANY):
        await requests.begin("acme")
    await requests.begin("other")
    assert requests.active["other"] == 1


async def test_requests_that_began_alone_go_on_and_later_ones_wait_until_few_are_left(requests: Requests) -> None:
    for _ in range(MANY):
        await requests.begin("acme")
    await requests.begin("other")
    await requests.begin("acme")
    for left in range(MANY - 1, 1, -1):
        await requests.end_one("acme")
        assert requests.active["acme"] == left
    await requests.end_one("acme")
    assert requests.active["acme"] == 2


async def test_requests_are_processed_in_the_order_in_which_they_came(requests: Requests) -> None:
    await requests.begin("other")
    for number in range(MANY):
        await requests.begin("acme", name=str(number))
    for _ in range(MANY - 2):
        await requests.end_one("acme")
    assert requests.order[1:] == [str(number) for number in range(MANY)]


async def test_an_organization_is_alone_again_when_the_others_have_not_called_for_some_time(
    requests: Requests, clock: Clock
) -> None:
    await requests.begin("other")
    await requests.end_one("other")
    clock.now += ACTIVE_S / 2
    for _ in range(4):
        await requests.begin("acme")
    assert requests.active["acme"] == 2
    clock.now += ACTIVE_S
    await requests.begin("acme")
    assert requests.active["acme"] == 3, "no other organization is active any more"
    await requests.end_one("acme")
    assert requests.active["acme"] == 4, "and those that wait go on as soon as one has ended"


async def test_calls_of_an_organization_itself_do_not_count_as_calls_of_others(
    queue: FairQueue, requests: Requests, clock: Clock
) -> None:
    assert not queue.others_call("acme")
    await requests.begin("acme")
    assert not queue.others_call("acme")
    assert queue.others_call("other")
    await requests.end_one("acme")
    clock.now += ACTIVE_S + 1
    assert not queue.others_call("other")


async def test_a_caller_who_leaves_while_waiting_takes_no_turn(requests: Requests) -> None:
    await requests.begin("other")
    for _ in range(2):
        await requests.begin("acme")
    left, stays = await requests.begin("acme", name="left"), await requests.begin("acme", name="stays")
    left.cancel()
    await requests.end_one("acme")
    assert requests.order[-1] == "stays"
    assert not stays.done()
    assert requests.active["acme"] == 2


async def test_a_caller_who_leaves_in_the_moment_of_its_turn_gives_it_to_the_next(requests: Requests) -> None:
    await requests.begin("other")
    first, _ = await requests.begin("acme"), await requests.begin("acme")
    left, _ = await requests.begin("acme", name="left"), await requests.begin("acme", name="next")
    first.cancel()
    # The first ends in this step, which gives its turn away; the one that gets it has not gone on yet.
    await asyncio.sleep(0)
    left.cancel()
    await settled()
    assert requests.order[-1] == "next"
    assert requests.active["acme"] == 2


async def test_a_request_that_waits_for_a_provider_lets_another_one_be_processed(
    queue: FairQueue, requests: Requests
) -> None:
    await requests.begin("other")
    answered = asyncio.Event()

    async def search() -> None:
        async with queue.take_turn("acme"):
            async with pause_turn(after_s=0):
                await answered.wait()
            requests.order.append("goes on")
            await asyncio.Event().wait()

    searches = [asyncio.create_task(search()) for _ in range(MANY)]
    await settled()
    for name in ("one", "two", "three"):
        await requests.begin("acme", name=name)
    assert requests.active["acme"] == 2
    answered.set()
    await settled()
    assert "goes on" not in requests.order
    await requests.end_one("acme")
    assert requests.order[-1] == "goes on", "it began before the one that waits"
    requests.tasks.extend(searches)


async def test_a_provider_that_answers_soon_costs_a_request_no_turn(queue: FairQueue, requests: Requests) -> None:
    await requests.begin("other")
    answers = asyncio.Event()

    async def search() -> None:
        async with queue.take_turn("acme"):
            async with pause_turn(after_s=60):
                await answers.wait()
            requests.order.append("goes on")

    searching = asyncio.create_task(search())
    await settled()
    for _ in range(3):
        await requests.begin("acme")
    assert requests.active["acme"] == 1
    answers.set()
    await searching
    assert requests.order.count("goes on") == 1


async def test_a_failure_of_a_provider_is_handled_in_the_requests_turn(queue: FairQueue, requests: Requests) -> None:
    await requests.begin("other")
    fails: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def search() -> None:
        async with queue.take_turn("acme"):
            try:
                async with pause_turn(after_s=0):
                    await fails
            except LookupError:
                requests.order.append("handled")

    searching = asyncio.create_task(search())
    await settled()
    for _ in range(2):
        await requests.begin("acme")
    fails.set_exception(LookupError())
    await settled()
    assert "handled" not in requests.order
    await requests.end_one("acme")
    await searching
    assert requests.active["acme"] == 1


async def test_a_request_cancelled_while_it_waits_for_a_provider_waits_for_no_turn(
    queue: FairQueue, requests: Requests
) -> None:
    await requests.begin("other")

    async def search() -> None:
        async with queue.take_turn("acme"), pause_turn(after_s=0):
            await asyncio.Event().wait()

    searching = asyncio.create_task(search())
    await settled()
    for _ in range(3):
        await requests.begin("acme")
    searching.cancel()
    await settled()
    assert searching.cancelled()
    assert requests.active["acme"] == 2, "and it gives no turn away that it did not have"


async def test_parts_of_a_request_share_its_turn(queue: FairQueue, requests: Requests) -> None:
    await requests.begin("other")

    async def part() -> None:
        async with queue.take_turn("acme"), pause_turn(after_s=0):
            await asyncio.sleep(0)

    async def run() -> None:
        async with queue.take_turn("acme"):
            await asyncio.gather(*(part() for _ in range(MANY)))
            requests.order.append("done")

    async with asyncio.timeout(BRAKE_S):
        await asyncio.gather(*(run() for _ in range(MANY)))
    assert requests.order.count("done") == MANY
    for _ in range(3):
        await requests.begin("acme")
    assert requests.active["acme"] == 2, "each turn was given back once"


@given(
    organizations=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=30),
    leaving=st.sets(st.integers(0, 29)),
    max_active=st.integers(1, 3),
)
async def test_every_request_has_its_turn_when_others_leave(
    organizations: list[str], leaving: set[int], max_active: int
) -> None:
    queue = FairQueue(max_active=max_active, clock=lambda: 0.0)
    done: set[int] = set()

    async def request(number: int, organization_id: str) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(queue.take_turn(organization_id))
            for _ in range(number % 3):
                async with pause_turn(after_s=0):
                    await asyncio.sleep(0)
                await asyncio.sleep(0)
            done.add(number)

    tasks = [asyncio.create_task(request(*each)) for each in enumerate(organizations)]
    await asyncio.sleep(0)
    for number in leaving:
        if number < len(tasks):
            tasks[number].cancel()
        await asyncio.sleep(0)
    async with asyncio.timeout(BRAKE_S):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert done >= set(range(len(tasks))) - leaving
