"""Couples a run to the connection of its caller: streams its events, and cancels it when the caller disconnects."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import structlog
from starlette.requests import Request

from kb_contracts.api.run_events import EventName
from kb_search.runs.events import SendEvent, encode_event
from kb_shared.errors import RequestError

T = TypeVar("T")

log = structlog.get_logger()


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`; cancel it if the caller of `request` disconnects first.

    Raises:
        RequestError: 499; the caller has disconnected and the work was cancelled.
    """
    working = asyncio.ensure_future(work)
    disconnecting = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait({working, disconnecting}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise RequestError(499, "caller-left", "The connection was closed; the work was stopped.")
        return working.result()
    finally:
        await _cancel_and_wait(working, disconnecting)


async def stream_events(
    request: Request, conduct: Callable[[SendEvent], Coroutine[Any, Any, Any]]
) -> AsyncIterator[str]:
    """Yield the events of `conduct` until it has finished or the caller has disconnected."""
    events: asyncio.Queue[str | None] = asyncio.Queue()

    async def send_event(name: EventName, data: Mapping[str, Any]) -> None:
        events.put_nowait(encode_event(name, data))

    conducting = asyncio.ensure_future(conduct(send_event))
    disconnecting = asyncio.ensure_future(_wait_for_disconnect(request))
    for ending in (conducting, disconnecting):
        ending.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        if conducting.done() and not conducting.cancelled():
            # A run without an answer has given the reason in its last event. Any other error is a bug of this service.
            error = conducting.exception()
            if error is not None and not isinstance(error, RequestError):
                log.error("run.crashed", exc_info=error)
                yield encode_event("run.finished", {"status": "failed", "error": {"type": "internal-error"}})
    finally:
        await _cancel_and_wait(conducting, disconnecting)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _cancel_and_wait(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    # The server cancels this coroutine repeatedly once its client has disconnected. `wait` does not pass these
    # cancellations on to the tasks, so that they can clean up, for example close the connection to a provider.
    await asyncio.wait(tasks)
