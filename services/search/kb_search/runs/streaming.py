"""Runs and their callers: the events of one on the wire, and an end to the work soon after the caller is gone."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import structlog
from starlette.requests import Request

from kb_search.runs.events import EventName, Tell, encoded
from kb_shared.errors import RequestError

T = TypeVar("T")

log = structlog.get_logger()


async def unless_left(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Do `work` for as long as its caller is there.

    Raises:
        RequestError: 499; the caller has gone and the work was cancelled.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise RequestError(499, "caller-left", "The connection was closed; the work was stopped.")
        return working.result()
    finally:
        await _end(working, leaving)


async def events_of(request: Request, conduct: Callable[[Tell], Coroutine[Any, Any, Any]]) -> AsyncIterator[str]:
    """Yield the events of `conduct` until it is done or the caller has gone."""
    told: asyncio.Queue[str | None] = asyncio.Queue()

    async def tell(name: EventName, data: Mapping[str, Any]) -> None:
        told.put_nowait(encoded(name, data))

    conducting = asyncio.ensure_future(conduct(tell))
    leaving = asyncio.ensure_future(_left(request))
    for ending in (conducting, leaving):
        ending.add_done_callback(lambda _: told.put_nowait(None))
    try:
        while (event := await told.get()) is not None:
            yield event
        if conducting.done() and not conducting.cancelled():
            # A run that has no answer has said why in its last event; anything else is our fault.
            error = conducting.exception()
            if error is not None and not isinstance(error, RequestError):
                log.error("run.broke", exc_info=error)
                yield encoded("run.finished", {"status": "failed", "error": {"type": "internal-error"}})
    finally:
        await _end(conducting, leaving)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _end(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    # Whoever waits here is cancelled again and again by a server whose client has gone. That must not reach the tasks:
    # what they do at their end, such as closing the connection to a provider, would be broken off.
    await asyncio.wait(tasks)
