"""Chat models for tests: `scripted` and `scripted-<anything>` say turn by turn what a test wrote down for them.

Each name has a script of its own, so that tests do not get in each other's way, and remembers what it was asked.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kb_local.model_server.chat_api import ChatReply, ChatRequest, RequestedToolCall, chat_events, text_of
from kb_local.model_server.delays import wait
from kb_local.model_server.openai_api import OpenAIError

NAME = re.compile(r"scripted(-[A-Za-z0-9_-]{1,64})?")
MOST_REMEMBERED = 200

_HALF = re.compile(r"<U\+(D[89A-F][0-9A-F]{2})>")
_ORDER = re.compile(r"CALL (?P<name>[A-Za-z0-9_-]+) (?P<arguments>\{.*?\}) END")


class ScriptedCall(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    arguments: str
    id: str | None = None
    """Id of the call; None: an id that was not given before."""


class ScriptedAnswer(BaseModel):
    """One answer; all that is left out is absent from it.

    In texts, ids, names and arguments `<U+D83D>` stands for this half of a surrogate pair, which no test could
    send as it is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str | None = None
    tool_calls: list[ScriptedCall] = []
    obey: bool = False
    """True to make the calls in the messages since the last answer: `CALL <name> <arguments> END`, anywhere in the
    result of a tool or the message of a user."""
    status: int | None = Field(default=None, ge=400, le=599)
    code: str | None = None
    """Code of the error."""
    retry_after_s: float | None = Field(default=None, ge=0)
    delay_s: float = Field(default=0.0, ge=0)
    """Seconds before the answer. It ends when `release` is called."""
    stall_s: float = Field(default=0.0, ge=0)
    """Seconds of a pause in the middle of a streamed answer."""
    cut: bool = False
    """True to end a streamed answer in the middle, without a word."""
    is_too_long: bool = False
    """True if the answer came to the end of what may be said: its reason to finish is `length`."""
    garbage: bool = False
    """True for an answer with status 200 and a body that is not a chat completion."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Script(BaseModel):
    """Turns of a scripted model; the last one is repeated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(pattern=NAME.pattern)
    turns: list[ScriptedAnswer] = Field(min_length=1)


@dataclass(slots=True)
class _Running:
    script: Script
    requests: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0
    releases: int = 0
    left: int = 0
    """Number of answers whose caller did not wait for their end."""


class ScriptedChat:
    """All scripts of this process."""

    def __init__(self) -> None:
        self._running: dict[str, _Running] = {}

    def put(self, script: Script) -> None:
        self._running[script.model] = _Running(script)

    def reset(self, model: str) -> None:
        self._running.pop(model, None)

    def release(self, model: str) -> None:
        """End the delays and stalls that are under way."""
        self._find_running(model).releases += 1

    def report(self, model: str) -> dict[str, Any]:
        """Return the requests to the model, in order, and how many callers left early."""
        running = self._find_running(model)
        return {"requests": running.requests, "left": running.left}

    async def turn(self, request: ChatRequest, *, is_disconnected: Callable[[], Awaitable[bool]]) -> ScriptedAnswer:
        """Remember the request and return the turn that answers it.

        Raises:
            OpenAIError: no script was put for this model, or the turn is an error.
            ClientDisconnected: while the turn was delayed.
        """
        running = self._find_running(request.model)
        turns = running.script.turns
        turn = turns[min(len(running.requests), len(turns) - 1)]
        running.requests = [*running.requests, request.model_dump(exclude_none=True)][-MOST_REMEMBERED:]
        if turn.delay_s:
            await self._wait(running, turn.delay_s, is_disconnected=is_disconnected)
        if turn.status is not None:
            headers = {} if turn.retry_after_s is None else {"Retry-After": f"{turn.retry_after_s:g}"}
            raise OpenAIError(turn.status, "Asked for by the test.", code=turn.code, headers=headers)
        return turn

    def reply(self, request: ChatRequest, turn: ScriptedAnswer) -> ChatReply:
        running = self._find_running(request.model)
        scripted = list(turn.tool_calls) + (list(_find_instructions(request)) if turn.obey else [])
        calls = []
        for call in scripted:
            running.calls += 1
            parts = (call.id or f"call_{running.calls}", call.name, call.arguments)
            calls.append(RequestedToolCall(*map(_with_surrogates, parts)))
        return ChatReply(
            None if turn.text is None else _with_surrogates(turn.text),
            calls,
            prompt_tokens=request.words if turn.prompt_tokens is None else turn.prompt_tokens,
            completion_tokens=len((turn.text or "").split())
            if turn.completion_tokens is None
            else turn.completion_tokens,
            is_cut=turn.is_too_long,
        )

    async def events(
        self, request: ChatRequest, turn: ScriptedAnswer, *, is_disconnected: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[str]:
        """Return the streamed answer, with what goes wrong in its middle."""
        events = list(chat_events(request, self.reply(request, turn)))
        middle = len(events) // 2
        for event in events[:middle]:
            yield event
        if turn.stall_s:
            await self._wait(self._find_running(request.model), turn.stall_s, is_disconnected=is_disconnected)
        if not turn.cut:
            for event in events[middle:]:
                yield event

    async def _wait(
        self, running: _Running, duration_s: float, *, is_disconnected: Callable[[], Awaitable[bool]]
    ) -> None:
        finished, releases = False, running.releases
        try:
            await wait(
                duration_s,
                is_disconnected=is_disconnected,
                is_released=lambda: running.releases > releases,
            )
            finished = True
        finally:
            running.left += not finished

    def _find_running(self, model: str) -> _Running:
        if model not in self._running:
            raise OpenAIError(404, f"No script was put for {model!r}.", param="model", code="model_not_found")
        return self._running[model]


def _with_surrogates(text: str) -> str:
    return _HALF.sub(lambda half: chr(int(half[1], 16)), text)


def _find_instructions(request: ChatRequest) -> Iterator[ScriptedCall]:
    """Extract the instructions in the newest messages: this model obeys data."""
    for message in request.after_last("assistant"):
        if message.get("role") == "system":
            continue
        # Passages and documents are JSON inside the text, where their own quotes are escaped.
        for found in _ORDER.finditer(text_of(message).replace('\\"', '"')):
            yield ScriptedCall(name=found["name"], arguments=found["arguments"])


def garbage_body() -> bytes:
    return json.dumps({"object": "something.else"}).encode()
