"""The events of a run, as a context manager and an iterator."""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Final, Self, cast

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from kb_client.async_client.transport import AsyncTransport
from kb_client.call import ApiCall
from kb_client.call_options import CallOptions
from kb_client.errors import StreamBroken
from kb_client.server_sent_events import EventStreamParser
from kb_contracts.api.run_events import CrashedRun, EventName, RunEvent
from kb_contracts.api.runs import RunView

EVENT_STREAM: Final = "text/event-stream"
_KNOWN: Final = frozenset(EventName.__args__)  # type: ignore[attr-defined]  # a Literal
_EVENT: Final[TypeAdapter[RunEvent]] = TypeAdapter(RunEvent)


class AsyncRunStream:
    """Events of one run. Entering the block begins the run; leaving it before the last event stops the run.

    Args:
        transport: sends the call.
        call: the run.
        options: options of the call; the time limit is that of the wait for each event.
    """

    def __init__(self, transport: AsyncTransport, call: ApiCall[RunView], options: CallOptions) -> None:
        self._transport = transport
        self._call = call
        self._options = options
        self._response: httpx.Response | None = None
        self._has_crashed = False
        self.run_id: str | None = None
        """Id of the run, from its first event."""
        self.finished: RunView | None = None
        """The finished run, from its last event."""

    async def __aenter__(self) -> Self:
        call = cast("ApiCall[BaseModel]", self._call)
        self._response = await self._transport.send(call, self._options, stream_of=EVENT_STREAM)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._response is not None:
            await self._response.aclose()

    async def __aiter__(self) -> AsyncIterator[RunEvent]:
        """Yield the events to the last one.

        Raises:
            StreamBroken: the connection ended before the run, or an error of the service ended the run.
        """
        if self._response is None:
            raise RuntimeError("the run has not begun; use it as a context manager")
        parser = EventStreamParser()
        try:
            async for line in self._response.aiter_lines():
                if (named := parser.feed(line)) is not None and named[0] in _KNOWN:
                    event = self._parse(*named)
                    yield event
                    if self.finished is not None:
                        return
                    if self._has_crashed:
                        raise StreamBroken(self.run_id, "an error of the service ended it")
        except httpx.TimeoutException as error:
            raise StreamBroken(self.run_id, "no event came in time") from error
        except httpx.HTTPError as error:
            raise StreamBroken(self.run_id, "the connection was lost") from error
        raise StreamBroken(self.run_id, "the connection was closed")

    def _parse(self, name: str, data: str) -> RunEvent:
        try:
            event: Any = _EVENT.validate_json(f'{{"event":"{name}","data":{data}}}')
        except ValidationError:
            # The error of pydantic would contain the answer.
            broken = StreamBroken(self.run_id, f"an event {name!r} can't be read")
        else:
            if name == "run.started":
                self.run_id = event.data.run_id
            elif name == "run.finished":
                self._end(event.data)
            return cast("RunEvent", event)
        raise broken

    def _end(self, outcome: RunView | CrashedRun) -> None:
        if isinstance(outcome, CrashedRun):
            self._has_crashed = True
        else:
            self.finished = outcome
