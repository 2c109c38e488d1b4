import asyncio
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from kb_indexer.consumer.suspect_quarantine import SuspectQuarantine


@dataclass(frozen=True, slots=True)
class Worker:
    alone: bool
    comes_after: int
    """Turns of the event loop, which the others count in as well."""
    stays_for: int
    gives_up_after: int
    """Cancelled then, wherever it has got to."""


turns = st.integers(min_value=0, max_value=6)
workers = st.builds(Worker, alone=st.booleans(), comes_after=turns, stays_for=turns, gives_up_after=st.integers(1, 40))


@given(st.lists(workers, max_size=8))
def test_a_worker_in_quarantine_is_alone_and_every_worker_gets_in(crowd: list[Worker]) -> None:
    asyncio.run(_all_work(crowd))


async def _all_work(crowd: list[Worker]) -> None:
    quarantine = SuspectQuarantine()
    inside: list[Worker] = []

    async def work(worker: Worker) -> None:
        await _pass(worker.comes_after)
        async with quarantine.enter_alone() if worker.alone else quarantine.enter_side_by_side():
            inside.append(worker)
            try:
                for _ in range(worker.stays_for + 1):
                    assert len(inside) == 1 or not any(each.alone for each in inside)
                    await _pass(1)
            finally:
                inside.remove(worker)

    async def give_up(worker: Worker, task: asyncio.Task[None]) -> None:
        await _pass(worker.gives_up_after)
        task.cancel()

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for worker in crowd:
            task = group.create_task(work(worker))
            group.create_task(give_up(worker, task))
    async with asyncio.timeout(30), quarantine.enter_alone():
        assert inside == []


async def test_later_workers_do_not_overtake_one_that_waits_to_be_alone() -> None:
    quarantine, order = SuspectQuarantine(), list[str]()

    async def alone() -> None:
        async with quarantine.enter_alone():
            order.append("alone")

    async def after_it() -> None:
        async with quarantine.enter_side_by_side():
            order.append("after it")

    async with asyncio.TaskGroup() as group, quarantine.enter_side_by_side():
        group.create_task(alone())
        group.create_task(after_it())
        await _pass(10)
        assert order == []
    assert order == ["alone", "after it"]


async def _pass(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)
