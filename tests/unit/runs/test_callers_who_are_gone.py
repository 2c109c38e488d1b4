import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from starlette.requests import Request
from starlette.types import Message

from kb_search.runs.streaming import cancel_on_disconnect, stream_events
from tests.waiting import until


async def _never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


REQUEST = Request({"type": "http"}, _never)


class SlowWork:
    """Work that takes some turns of the event loop to end, like the closing of a connection."""

    def __init__(self) -> None:
        self.begun = self.ended = False

    async def do(self) -> None:
        try:
            self.begun = True
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            self.ended = True

    async def whole(self) -> None:
        await cancel_on_disconnect(REQUEST, self.do())

    async def streamed(self) -> None:
        events: AsyncIterator[str] = stream_events(REQUEST, lambda _: self.do())
        async for _ in events:
            pass


@pytest.mark.parametrize("way", [SlowWork.whole, SlowWork.streamed])
async def test_work_comes_to_its_end_however_often_its_caller_is_cancelled(
    way: Callable[[SlowWork], "asyncio.Future[None]"],
) -> None:
    work = SlowWork()
    waiting = asyncio.ensure_future(way(work))
    await until(lambda: work.begun)
    for _ in range(3):
        waiting.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([waiting])
    await until(lambda: work.ended, within_s=5)
