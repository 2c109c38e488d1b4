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


async def test_what_takes_longer_than_its_timeout_is_cancelled() -> None:
    for timeout in (0.01, 0):
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(never, timeout)
        assert never.cancelled()


async def _command(answer: asyncio.Future[None]) -> None:
    await asyncio.wait_for(answer, 10)
