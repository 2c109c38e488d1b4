"""Events of an organization as they happen, over connections that follow each other."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from types import TracebackType
from typing import Final, Self, cast

import httpx
from pydantic import BaseModel

from kb_client.async_client.transport import AsyncTransport
from kb_client.call import ApiCall
from kb_client.call_options import CallOptions
from kb_client.errors import ApiError, CallTimedOut, ConnectionFailed
from kb_client.server_sent_events import EventStreamParser
from kb_contracts.api.events import EventList, OutcomeEventView

EVENT_STREAM: Final = "text/event-stream"
LONGEST_WAIT_S: Final = 30.0
_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429

_log = logging.getLogger("kb_client")


class AsyncEventStream:
    """Events of an organization, without end.

    Args:
        transport: sends the calls.
        call: the events wanted.
        options: options of each call; the time limit is that of the wait for each heartbeat.
    """

    def __init__(self, transport: AsyncTransport, call: ApiCall[EventList], options: CallOptions) -> None:
        self._transport = transport
        self._call = call
        self._options = options
        self._response: httpx.Response | None = None
        self.position: int | None = None
        """Position up to which events were received; None before the first connection has told it."""

    async def __aenter__(self) -> Self:
        self._response = await self._connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._response is not None:
            await self._response.aclose()

    async def __aiter__(self) -> AsyncIterator[OutcomeEventView]:
        """Yield the events.

        Raises:
            ApiError: the API refuses to continue: the key was revoked, or the next events are not kept any more.
        """
        if self._response is None:
            raise RuntimeError("there is no connection yet; use it as a context manager")
        while True:
            parser = EventStreamParser()
            try:
                async for line in self._response.aiter_lines():
                    named = parser.feed(line)
                    if parser.last_id is not None:
                        self.position = int(parser.last_id)
                    if named is not None:
                        yield OutcomeEventView.model_validate_json(named[1])
            except httpx.HTTPError as error:
                _log.debug("the stream of events was interrupted: %s", type(error).__name__)
            await self._response.aclose()
            self._response = await self._connect_again()

    async def _connect_again(self) -> httpx.Response:
        wait_s = 1.0
        while True:
            # Not all clients at once after a restart of the service.
            await asyncio.sleep(wait_s * random.uniform(0.5, 1))  # noqa: S311  # no secret
            try:
                return await self._connect()
            except (ConnectionFailed, CallTimedOut):
                pass
            except ApiError as error:
                if error.status < _SERVER_ERROR and error.status != _TOO_MANY:
                    raise
            wait_s = min(LONGEST_WAIT_S, 2 * wait_s)

    async def _connect(self) -> httpx.Response:
        call = self._call
        if self.position is not None:
            call = replace(call, query={**call.query, "after": self.position})
        return await self._transport.send(cast("ApiCall[BaseModel]", call), self._options, stream_of=EVENT_STREAM)
