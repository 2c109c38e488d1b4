import asyncio

import pytest

from kb_shared.concurrency.concurrent_tasks import run_all, run_all_or_cancel, run_three_or_cancel


async def answer(value: int, after: asyncio.Event) -> int:
    await after.wait()
    return value


async def fail(message: str) -> int:
    raise ValueError(message)


async def test_answers_come_in_the_order_of_the_work_and_at_the_same_time() -> None:
    event = asyncio.Event()

    async def release() -> int:
        event.set()
        return 3

    assert await run_all([answer(1, event), answer(2, event), release()]) == [1, 2, 3]


async def test_a_failure_is_raised_as_it_is_once_all_have_ended() -> None:
    ended: list[str] = []

    async def slow() -> int:
        await asyncio.sleep(0)
        ended.append("slow")
        return 1

    with pytest.raises(ValueError, match="first"):
        await run_all([fail("first"), slow(), fail("second")])
    assert ended == ["slow"]


async def test_an_error_that_is_returned_is_an_answer() -> None:
    async def explain() -> Exception:
        return ValueError("explained")

    [answer] = await run_all([explain()])
    assert str(answer) == "explained"


async def test_a_caller_cancelled_before_the_first_step_leaves_no_task_behind() -> None:
    never = asyncio.Event()
    task = asyncio.create_task(run_all([answer(1, never), answer(2, never)]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_failure_cancels_the_others_which_have_ended_when_it_is_raised() -> None:
    ended: list[str] = []

    async def wait_forever() -> int:
        try:
            return await answer(1, asyncio.Event())
        finally:
            await asyncio.sleep(0)
            ended.append("waiting")

    with pytest.raises(ValueError, match="first"):
        await run_all_or_cancel([wait_forever(), fail("first")])
    assert ended == ["waiting"]


async def test_a_cancelled_caller_cancels_all_tasks() -> None:
    ended: list[int] = []

    async def wait_forever(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    task = asyncio.create_task(run_all_or_cancel(wait_forever(number) for number in range(2)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [0, 1]


async def test_three_of_different_types_come_in_their_order_and_end_with_a_failure() -> None:
    event = asyncio.Event()

    async def release() -> str:
        event.set()
        return "released"

    assert await run_three_or_cancel(answer(1, event), release(), answer(2, event)) == (1, "released", 2)
    waiting = asyncio.ensure_future(asyncio.Event().wait())
    with pytest.raises(ValueError, match="first"):
        await run_three_or_cancel(fail("first"), waiting, answer(1, event))
    assert waiting.cancelled()


async def test_tasks_that_run_already_are_awaited_to_the_last_one_when_one_fails() -> None:
    event = asyncio.Event()
    tasks = {asyncio.create_task(fail("first")), asyncio.create_task(answer(1, event))}
    waiting = asyncio.create_task(run_all(tasks))
    await asyncio.sleep(0)
    event.set()
    with pytest.raises(ValueError, match="first"):
        await waiting
    assert all(task.done() for task in tasks)
