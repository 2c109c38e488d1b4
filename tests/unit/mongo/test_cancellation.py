import asyncio

import pytest

import kb_shared.mongo.database  # noqa: F401  # every process that uses MongoDB imports it


async def test_a_cancellation_that_comes_together_with_the_result_is_not_lost() -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(_command(answer))
    await asyncio.sleep(0)
    answer.set_result(None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_call_beyond_its_timeout_is_cancelled() -> None:
    for timeout in (0.01, 0):
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(never, timeout)
        assert never.cancelled()


async def test_a_waiting_coroutine_is_awaited_to_its_end_and_receives_its_cancellation() -> None:
    received: list[str] = []

    async def work(seconds: float, *, fails: bool = False) -> str:
        try:
            for _ in range(2):
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            received.append("cancelled")
            raise
        if fails:
            raise ZeroDivisionError
        return "done"

    assert await asyncio.wait_for(work(0.001), 10) == "done"
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(work(0.001, fails=True), 10)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(work(10), 0.01)
    assert received == ["cancelled"]
    task = asyncio.create_task(asyncio.wait_for(work(10), 10))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert received == ["cancelled", "cancelled"]


async def test_a_coroutine_that_does_not_wait_gives_its_result_or_its_error_at_once() -> None:
    async def work(*, fails: bool) -> str:
        if fails:
            raise ZeroDivisionError
        return "done"

    assert await asyncio.wait_for(work(fails=False), 10) == "done"
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(work(fails=True), 10)


async def _command(answer: asyncio.Future[None]) -> None:
    await asyncio.wait_for(answer, 10)
