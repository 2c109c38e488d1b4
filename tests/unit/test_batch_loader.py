import asyncio
from collections.abc import Mapping, Sequence

import pytest

from kb_shared.concurrency.batch_loader import BatchLoader


class Oracle:
    """Answers with ten times the number, once it is told to; knows nothing of those below zero."""

    def __init__(self) -> None:
        self.questions: list[list[int]] = []
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def ask(self, numbers: Sequence[int]) -> Mapping[int, int]:
        self.questions.append(list(numbers))
        self.was_asked.set()
        await self.may_answer.wait()
        if 13 in numbers:
            raise ValueError(13)
        return {number: 10 * number for number in numbers if number >= 0}


async def test_concurrent_calls_share_one_query() -> None:
    oracle = Oracle()
    oracle.may_answer.set()
    assert await asyncio.gather(*map(BatchLoader(oracle.ask), [1, 2, 1, -1])) == [10, 20, 10, None]
    assert oracle.questions == [[1, 2, -1]]


async def test_calls_during_a_query_are_loaded_by_the_next_one() -> None:
    oracle = Oracle()
    load = BatchLoader(oracle.ask)
    asked = [asyncio.create_task(load(1))]
    await oracle.was_asked.wait()
    # The answer to come may be older than what was written before this was asked.
    asked += [asyncio.create_task(load(number)) for number in (1, 2)]
    await asyncio.sleep(0)
    oracle.may_answer.set()
    assert await asyncio.gather(*asked) == [10, 10, 20]
    assert oracle.questions == [[1], [1, 2]]


async def test_a_question_that_hangs_does_not_hold_up_the_next_for_long() -> None:
    oracle = Oracle()
    load = BatchLoader(oracle.ask, patience_s=0.01)
    hanging = asyncio.create_task(load(1))
    await oracle.was_asked.wait()
    oracle.was_asked.clear()
    later = asyncio.create_task(load(2))
    await asyncio.wait_for(oracle.was_asked.wait(), 10)
    oracle.may_answer.set()
    assert [await hanging, await later] == [10, 20]


async def test_a_question_is_never_too_long() -> None:
    oracle = Oracle()
    oracle.may_answer.set()
    load = BatchLoader(oracle.ask, at_most=3)
    assert await asyncio.gather(*map(load, range(8))) == [10 * number for number in range(8)]
    assert [len(question) for question in oracle.questions] == [3, 3, 2]


async def test_a_failure_reaches_the_callers_of_its_batch_and_no_later_caller() -> None:
    oracle = Oracle()
    oracle.may_answer.set()
    load = BatchLoader(oracle.ask)
    first = await asyncio.gather(load(13), load(1), return_exceptions=True)
    assert [type(outcome) for outcome in first] == [ValueError, ValueError]
    assert await load(1) == 10


async def test_a_cancelled_caller_does_not_cancel_the_batch_of_others() -> None:
    oracle = Oracle()
    load = BatchLoader(oracle.ask)
    leaving, staying = asyncio.create_task(load(1)), asyncio.create_task(load(1))
    await oracle.was_asked.wait()
    leaving.cancel()
    oracle.may_answer.set()
    assert await staying == 10
    with pytest.raises(asyncio.CancelledError):
        await leaving
