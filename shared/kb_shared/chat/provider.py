"""The only door to providers of chat models."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, TypeAlias

from kb_shared.chat.answers.answer_reader import AnswerReader, MalformedAnswer, NoAnswer, ReadAnswer, WithheldAnswer
from kb_shared.chat.completion import Completion, CompletionRequest, Message
from kb_shared.chat.models import BundledChatModel, ChatModel
from kb_shared.chat.outgoing_messages import options_of_messages, outgoing_messages
from kb_shared.errors import ContextExceeded, KbError
from kb_shared.observability import spans, tracing
from kb_shared.observability.metrics import CHAT_CALLS, CHAT_REQUEST_SECONDS, CHAT_TOKENS
from kb_shared.observability.tracing import TraceSpan
from kb_shared.providers.call_attributes import call_attributes
from kb_shared.providers.capped_answers import AnswerTooLarge, answers_up_to
from kb_shared.providers.context_limit import find_context_limit
from kb_shared.providers.late_litellm import describe_models, errors_of_litellm, load_litellm, loaded_litellm
from kb_shared.providers.named_addresses import NamedAddresses
from kb_shared.providers.openai_server import (
    CALL_ERRORS,
    OpenAIServers,
    ServerFailed,
    UnreadableAnswer,
    failure_of_call,
    failure_of_other_body,
    server_of,
)
from kb_shared.providers.provider_errors import Failure, StatusClass, bad_answer, classified, timed_out, withheld
from kb_shared.providers.refused_options import STREAM, ServerHabits, find_refused

OnText: TypeAlias = Callable[[str], Awaitable[None]]
"""Callback that gets each piece of the text as it comes."""

_BYTES_PER_TOKEN: Final = 3
_LONGEST_TOKEN_BYTES: Final = 64
_BYTES_PER_PIECE: Final = 1_024
"""Bytes of a piece of a streamed answer beside its text; a piece holds a token at least."""
_BYTES_AROUND_ANSWER: Final = 1_048_576
_TOKENS_UNLESS_SAID: Final = 131_072
_LATE_S: Final = 0.001
"""Delay of the event loop from which it counts as busy."""
_LONGEST_STREAM: Final = 10
"""Time of a whole streamed answer, in multiples of the time for which it may be silent."""
_TIMEOUT_SETTING: Final = "KB_CHAT_TIMEOUT_S"
_MOST_ATTEMPTS: Final = 5
"""Requests of one call: each but the first leaves out an option that the server does not know."""
_PATH: Final = "/chat/completions"
_REST: Final = 20.0
"""Pause of a stream, in multiples of the time by which the event loop was late."""


@cache
def bundled_chat_models() -> Mapping[str, BundledChatModel]:
    """Return the chat models that litellm brings a description of, by name."""
    return {
        name: BundledChatModel(
            provider=described["litellm_provider"],
            max_input_tokens=described.get("max_input_tokens"),
            max_output_tokens=described.get("max_output_tokens"),
            usd_per_prompt_token=described.get("input_cost_per_token"),
            usd_per_completion_token=described.get("output_cost_per_token"),
            takes_schema=bool(described.get("supports_response_schema")),
            reasons=bool(described.get("supports_reasoning")),
        )
        for name, described in describe_models("chat").items()
    }


class ChatProvider:
    """Asks providers for completions: one answer a call."""

    def __init__(self, *, private_addresses: bool = False) -> None:
        """Construct it; `private_addresses` says whether organizations may name addresses that are not public."""
        self._named_addresses = NamedAddresses(private=private_addresses)
        self._servers = OpenAIServers(private_addresses=private_addresses)
        self._habits = ServerHabits()

    async def complete(
        self, request: CompletionRequest, *, model: ChatModel, timeout_s: float, on_text: OnText | None = None
    ) -> Completion:
        """Ask the provider; a server that does not know an option of the request is asked again without it.

        Args:
            request: what is said, and with what the model may answer.
            model: of the catalogue.
            timeout_s: of a whole answer, or of the silence between two pieces of a streamed one.
            on_text: if given, the answer is streamed.

        Raises:
            ProviderUnavailable: timeout, no connection, 408, 409, 429, 5xx, or an answer that can't be used.
            ProviderKeyRefused: 401, 402, 403, or a 429 that says the quota is used up.
            ProviderIncompatible: what answers does not speak OpenAI's API.
            AnswerWithheld: the provider or the model refuses to answer.
            ContextExceeded: prompt and answer are longer than the model's context.
            BatchRefused: any other 400, 413, 422: too long, or not allowed.
            ProviderRefused: any other 4xx.
        """
        attributes = call_attributes("chat", model.name, model.route) | {"kb.streamed": on_text is not None}
        with tracing.span(spans.CHAT, attributes, of=model.label) as span:
            return await self._complete(request, model, timeout_s=timeout_s, on_text=on_text, span=span)

    async def close(self) -> None:
        """Close the connections; litellm's own are the embedder's to close."""
        await self._named_addresses.close()
        await self._servers.close()

    async def _complete(
        self,
        request: CompletionRequest,
        model: ChatModel,
        *,
        timeout_s: float,
        on_text: OnText | None,
        span: TraceSpan,
    ) -> Completion:
        if server_of(model.route, api_base=model.api_base, api_key=model.api_key, access=model.access) is None:
            # Before the time of the call begins.
            await load_litellm()
        began = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_s) as limit:
                silence = _Silence(limit, seconds=timeout_s)
                completion = await self._ask(request, model, silence=silence, on_text=on_text)
        except (*_FAILURES, *errors_of_litellm()) as error:
            status_class, failure = _explain(error, model, timeout_s=timeout_s)
        else:
            CHAT_REQUEST_SECONDS.labels(model.label).observe(time.perf_counter() - began)
            CHAT_CALLS.labels(model.label, "2xx").inc()
            CHAT_TOKENS.labels(model.label, "prompt").inc(completion.prompt_tokens)
            CHAT_TOKENS.labels(model.label, "completion").inc(completion.completion_tokens)
            span.set({"kb.status_class": "2xx", **token_counts(completion)})
            return completion
        span.set({"kb.status_class": status_class})
        CHAT_CALLS.labels(model.label, status_class).inc()
        # Raised out here, so that no provider's words travel along as its context.
        raise failure

    async def _ask(
        self, request: CompletionRequest, model: ChatModel, *, silence: "_Silence", on_text: OnText | None
    ) -> Completion:
        """Ask, and ask again without the options that the server is found not to know, or for a shorter answer."""
        refused = self._habits.refused(model.fingerprint)
        given, listener = request, None if on_text is None else _TextListener(on_text)
        for _ in range(_MOST_ATTEMPTS - 1):
            try:
                return await self._ask_without(refused, request, model, silence=silence, on_text=listener)
            except (*CALL_ERRORS, *errors_of_litellm()) as error:
                if listener is not None and listener.has_heard:
                    raise
                limit = find_context_limit(_failure(error), _words(error))
                if limit is not None and request is given and limit.leaves_room(request.max_completion_tokens):
                    # Without a limit where the room is not known: the server then gives the answer what is left.
                    request = replace(request, max_completion_tokens=limit.room)
                    continue
                sent = _options(request, model, refused, is_streamed=on_text is not None)
                may_guess = not self._habits.has_answered(model.fingerprint)
                found = find_refused(_failure(error), _words(error), sent=sent, may_guess=may_guess)
                if not found:
                    raise
                refused |= found
        return await self._ask_without(refused, request, model, silence=silence, on_text=listener)

    async def _ask_without(
        self,
        refused: frozenset[str],
        request: CompletionRequest,
        model: ChatModel,
        *,
        silence: "_Silence",
        on_text: OnText | None,
    ) -> Completion:
        is_streamed = on_text is not None and STREAM not in refused
        habit = self._habits.thinks_aloud(model.fingerprint)
        reader = AnswerReader(request.tool_names, is_json=request.schema is not None, thinks_aloud=habit)
        most = _largest_answer(request, model, streamed=is_streamed)
        body = _body(request, model, refused, is_streamed=is_streamed)
        pieces = self._pieces(body, model, timeout_s=silence.seconds, max_bytes=most)
        size = 0
        try:
            async for piece in pieces:
                if is_streamed:
                    silence.end()
                text = reader.feed(piece)
                size += _BYTES_PER_PIECE
                if is_streamed and size + reader.size > most:
                    raise MalformedAnswer("it is longer than its tokens can be")
                if text and on_text is not None:
                    await on_text(text)
                await _yield_to_event_loop()
        finally:
            # Otherwise the provider goes on writing, and the connection is never given back.
            await asyncio.shield(pieces.aclose())
        rest = reader.end()
        if rest and on_text is not None:
            await on_text(rest)
        answer = reader.answer()
        self._habits.note_answer(model.fingerprint, without=refused)
        if answer.thinks_aloud is not None:
            self._habits.note_thinks_aloud(model.fingerprint, answer.thinks_aloud)
        return replace(_completion(answer, request, model), left_out=refused)

    def _pieces(
        self, body: dict[str, Any], model: ChatModel, *, timeout_s: float, max_bytes: int
    ) -> AsyncGenerator[Mapping[str, Any]]:
        server = server_of(model.route, api_base=model.api_base, api_key=model.api_key, access=model.access)
        if server is not None:
            return self._servers.stream(_PATH, body, server=server, max_bytes=max_bytes)
        return self._pieces_of_litellm(body, model, timeout_s=timeout_s, max_bytes=max_bytes)

    async def _pieces_of_litellm(
        self, body: dict[str, Any], model: ChatModel, *, timeout_s: float, max_bytes: int
    ) -> AsyncGenerator[Mapping[str, Any]]:
        litellm = (await load_litellm()).litellm
        arguments = self._arguments(body, model, timeout_s)
        with answers_up_to(max_bytes):
            answer = await litellm.acompletion(**arguments)
        if not body.get("stream"):
            yield answer.model_dump(warnings=False)
            return
        try:
            async for piece in answer:
                found = piece.model_dump(warnings=False)
                if answer.received_finish_reason is None:
                    # litellm ends an answer without an error even if the provider broke it off.
                    for choice in found.get("choices") or ():
                        choice["finish_reason"] = None
                yield found
        finally:
            await answer.aclose()

    def _arguments(self, body: dict[str, Any], model: ChatModel, timeout_s: float) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            **body,
            "model": model.route,
            "timeout": timeout_s,
            "max_retries": 0,
            "num_retries": 0,
            "api_key": model.api_key,
        }
        if model.api_base is not None:
            arguments["api_base"] = model.api_base
        if (client := self._named_addresses.client(model.route, model.access)) is not None:
            arguments["client"] = client
            # Else LiteLLM asks some models of Azure over another API, and connects by a client of its own.
            arguments["_skip_responses_api_bridge"] = True
        return arguments


_FAILURES: Final[tuple[type[Exception], ...]] = (
    TimeoutError,
    MalformedAnswer,
    NoAnswer,
    WithheldAnswer,
    UnreadableAnswer,
    AnswerTooLarge,
    *CALL_ERRORS,
)


class _TextListener:
    """Passes on the text of an answer, after which nothing may be asked again: it would be heard twice."""

    def __init__(self, on_text: OnText) -> None:
        self.has_heard = False
        self._on_text = on_text

    async def __call__(self, text: str) -> None:
        self.has_heard = True
        await self._on_text(text)


class _Silence:
    """The time for which a provider may be silent: each piece of a streamed answer begins it again."""

    def __init__(self, limit: asyncio.Timeout, *, seconds: float) -> None:
        self.seconds = seconds
        self._limit = limit
        self._clock = asyncio.get_running_loop().time
        self._latest = self._clock() + seconds * _LONGEST_STREAM

    def end(self) -> None:
        """Note that a piece has come."""
        if not self._limit.expired():
            self._limit.reschedule(min(self._clock() + self.seconds, self._latest))


def _explain(error: Exception, model: ChatModel, *, timeout_s: float) -> tuple[StatusClass, KbError]:
    """Return what to count and what to raise."""
    match error:
        case TimeoutError():
            return "timeout", timed_out(model.name, after_s=timeout_s, setting=_TIMEOUT_SETTING)
        case MalformedAnswer() | UnreadableAnswer():
            return "bad_answer", bad_answer(model.name, str(error))
        case AnswerTooLarge():
            return "bad_answer", bad_answer(model.name, "it is longer than its tokens can be")
        case WithheldAnswer():
            return "2xx", withheld(model.name, str(error))
        case NoAnswer():
            return classified(model.name, failure_of_other_body(error.body, expected="choices"))
    status_class, failure = classified(model.name, _failure(error))
    limit = find_context_limit(_failure(error), _words(error))
    return status_class, failure if limit is None else ContextExceeded(limit.describe(model.name))


def _failure(error: Exception) -> Failure:
    if isinstance(error, CALL_ERRORS):
        return failure_of_call(error)
    failure: Failure = loaded_litellm().failure_of(error)  # type: ignore[union-attr]  # the error is litellm's
    return failure


def _words(error: Exception) -> str:
    return error.said if isinstance(error, ServerFailed) else str(error)


def _options(request: CompletionRequest, model: ChatModel, refused: frozenset[str], *, is_streamed: bool) -> set[str]:
    """Return the options of a request that a server may refuse."""
    body = _body(request, model, refused, is_streamed=is_streamed and STREAM not in refused)
    return (set(body) | options_of_messages(request.messages)) - {"model", "messages"} - refused


def _body(
    request: CompletionRequest, model: ChatModel, refused: frozenset[str], *, is_streamed: bool
) -> dict[str, Any]:
    """Return a request in OpenAI's form, without what the server is known to refuse."""
    body: dict[str, Any] = {}
    if request.tools:
        body["tools"] = [dict(tool) for tool in request.tools]
    if request.schema is not None and model.takes_schema:
        body["response_format"] = _response_format(request.schema)
    if request.temperature is not None:
        body["temperature"] = request.temperature
    limit = request.max_completion_tokens
    # A limit above the model's own is needless, and refused.
    if limit is not None and (model.max_output_tokens is None or limit < model.max_output_tokens):
        # Reasoning models refuse `max_tokens`. litellm translates to it where a provider knows only the old name.
        body["max_tokens" if "max_completion_tokens" in refused else "max_completion_tokens"] = limit
    if is_streamed:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return {
        "model": model.server_name,
        "messages": outgoing_messages(request.messages, without=refused),
        **{name: value for name, value in body.items() if name not in refused},
    }


async def _yield_to_event_loop() -> None:
    """Let other tasks run between two pieces: a fast provider sends many, and each takes half a millisecond of CPU.

    A busy event loop makes the wait longer, so that all streams together leave most of its time to other tasks.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    await asyncio.sleep(0)
    if (late_s := clock() - began) > _LATE_S:
        await asyncio.sleep(late_s * _REST)


def _response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema), "strict": True}}


def _largest_answer(request: CompletionRequest, model: ChatModel, *, streamed: bool) -> int:
    limits = [limit for limit in (request.max_completion_tokens, model.max_output_tokens) if limit is not None]
    tokens = min(limits, default=_TOKENS_UNLESS_SAID)
    return tokens * (_LONGEST_TOKEN_BYTES + (_BYTES_PER_PIECE if streamed else 0)) + _BYTES_AROUND_ANSWER


def _completion(answer: ReadAnswer, request: CompletionRequest, model: ChatModel) -> Completion:
    is_counted = answer.prompt_tokens > 0
    prompt_tokens = answer.prompt_tokens if is_counted else estimate_message_tokens(request.messages)
    completion_tokens = answer.completion_tokens if is_counted else _estimated(answer.text or "")
    return Completion(
        text=answer.text,
        tool_calls=answer.calls,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cost_usd=model.cost_usd(prompt_tokens, completion_tokens),
        tokens_are_counted=is_counted,
        is_cut=answer.is_cut,
        returned=answer.returned,
    )


def broken_off(text: str, request: CompletionRequest, model: ChatModel) -> Completion:
    """Return what is known of an answer that broke off after `text`: its tokens are paid for, and only estimated."""
    prompt_tokens, completion_tokens = estimate_message_tokens([*request.messages, *request.tools]), _estimated(text)
    return Completion(
        text=text,
        tool_calls=[],
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cost_usd=model.cost_usd(prompt_tokens, completion_tokens),
        tokens_are_counted=False,
        is_cut=True,
    )


def token_counts(completion: Completion) -> tracing.Attributes:
    """Return the tokens of a completion as attributes of a span."""
    return {
        "gen_ai.usage.input_tokens": completion.prompt_tokens,
        "gen_ai.usage.output_tokens": completion.completion_tokens,
    }


def estimate_message_tokens(messages: Sequence[Message]) -> int:
    """Estimate tokens for limits, before the provider has counted: rather too many, a token of English has 4 bytes."""
    return sum(_estimated(json.dumps(dict(message), ensure_ascii=False)) for message in messages)


def _estimated(text: str) -> int:
    return len(text.encode(errors="replace")) // _BYTES_PER_TOKEN + 1
