"""The only door to providers of chat models."""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from kb_shared.chat.completion import (
    Completion,
    CompletionRequest,
    Message,
    ToolCall,
)
from kb_shared.chat.models import BundledChatModel, ChatModel
from kb_shared.observability import spans, tracing
from kb_shared.observability.metrics import CHAT_CALLS, CHAT_REQUEST_SECONDS, CHAT_TOKENS
from kb_shared.observability.tracing import TraceSpan
from kb_shared.providers.call_attributes import call_attributes
from kb_shared.providers.capped_answers import AnswerTooLarge, answers_up_to
from kb_shared.providers.named_addresses import NamedAddresses
from kb_shared.providers.provider_errors import StatusClass, bad_answer, classified, timed_out
from kb_shared.providers.quiet_litellm import LITELLM_ERRORS, failure_of, litellm
from kb_shared.text.whole_characters import WholeCharacters, whole_characters

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
_REST: Final = 20.0
"""Pause of a stream, in multiples of the time by which the event loop was late."""


class _MalformedCompletion(Exception):
    """The answer is no chat completion; `str()` says how, quoting nothing of it."""


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
        )
        for name, described in litellm.model_cost.items()
        if described.get("mode") == "chat"
    }


class ChatProvider:
    """Asks providers for completions: one request a call."""

    def __init__(self, *, private_addresses: bool = False) -> None:
        """Construct it; `private_addresses` says whether organizations may name addresses that are not public."""
        self._named_addresses = NamedAddresses(private=private_addresses)

    async def complete(
        self, request: CompletionRequest, *, model: ChatModel, timeout_s: float, on_text: OnText | None = None
    ) -> Completion:
        """Ask the provider once.

        Args:
            request: what is said, and with what the model may answer.
            model: of the catalogue.
            timeout_s: of the whole call, the last piece included.
            on_text: if given, the answer is streamed.

        Raises:
            ProviderUnavailable: timeout, no connection, 408, 409, 429, 5xx, or an answer that can't be used.
            ProviderKeyRefused: 401, 402, 403, or a 429 that says the quota is used up.
            BatchRefused: 400, 413, 422: too long, or not allowed.
            ProviderRefused: any other 4xx.
        """
        attributes = call_attributes("chat", model.name, model.route) | {"kb.streamed": on_text is not None}
        with tracing.span(spans.CHAT, attributes, of=model.label) as span:
            return await self._complete(request, model, timeout_s=timeout_s, on_text=on_text, span=span)

    async def close(self) -> None:
        """Close the connections to addresses that organizations named; litellm's own are the embedder's to close."""
        await self._named_addresses.close()

    async def _complete(
        self,
        request: CompletionRequest,
        model: ChatModel,
        *,
        timeout_s: float,
        on_text: OnText | None,
        span: TraceSpan,
    ) -> Completion:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_s):
                completion = await self._request_completion(request, model, timeout_s=timeout_s, on_text=on_text)
        except TimeoutError:
            status_class: StatusClass = "timeout"
            failure: Exception = timed_out(model.name)
        except _MalformedCompletion as wrong:
            status_class, failure = "bad_answer", bad_answer(model.name, str(wrong))
        except AnswerTooLarge:
            status_class, failure = "bad_answer", bad_answer(model.name, "it is longer than its tokens can be")
        except LITELLM_ERRORS as error:
            status_class, failure = classified(model.name, failure_of(error))
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

    async def _request_completion(
        self, request: CompletionRequest, model: ChatModel, *, timeout_s: float, on_text: OnText | None
    ) -> Completion:
        arguments = self._arguments(request, model, timeout_s)
        if on_text is None:
            with answers_up_to(_largest_answer(request, model, streamed=False)):
                answer = await litellm.acompletion(**arguments)
            return _completion(answer, request, model)
        with answers_up_to(_largest_answer(request, model, streamed=True)):
            pieces = await litellm.acompletion(**arguments, stream=True, stream_options={"include_usage": True})
            try:
                kept = await self._listen(pieces, on_text, max_bytes=_largest_answer(request, model, streamed=True))
            finally:
                # Otherwise the provider goes on writing, and the connection is never given back.
                await asyncio.shield(pieces.aclose())
        return _completion(litellm.stream_chunk_builder(kept), request, model)

    async def _listen(self, pieces: Any, on_text: OnText, *, max_bytes: int) -> list[Any]:
        """Pass the text on as it comes, and return the pieces.

        Raises:
            _MalformedCompletion: the answer breaks off, or does not end.
        """
        kept = []
        size = 0
        characters = WholeCharacters()
        of_arguments: defaultdict[int, WholeCharacters] = defaultdict(WholeCharacters)
        async for piece in pieces:
            _fix_calls(piece, of_arguments)
            kept.append(piece)
            size += _BYTES_PER_PIECE + _written(piece)
            if size > max_bytes:
                raise _MalformedCompletion("it is longer than its tokens can be")
            if text := characters.feed(_text_of(piece) or ""):
                await on_text(text)
            await _yield_to_event_loop()
        if text := characters.end():
            await on_text(text)
        # litellm ends an answer without an error even if the provider broke it off.
        if pieces.received_finish_reason is None:
            raise _MalformedCompletion("it breaks off")
        return kept

    def _arguments(self, request: CompletionRequest, model: ChatModel, timeout_s: float) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": model.route,
            "messages": [dict(message) for message in request.messages],
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
        if request.tools:
            arguments["tools"] = [dict(tool) for tool in request.tools]
        if request.schema is not None and model.takes_schema:
            arguments["response_format"] = _response_format(request.schema)
        limit = request.max_completion_tokens
        # A limit above the model's own is needless, and refused.
        if limit is not None and (model.max_output_tokens is None or limit < model.max_output_tokens):
            # Reasoning models refuse `max_tokens`. litellm translates to it where a provider knows only the old name.
            arguments["max_completion_tokens"] = limit
        return arguments


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


def _written(piece: Any) -> int:
    """Count the characters of all that a piece adds to the answer."""
    if not piece.choices:
        return 0
    delta = piece.choices[0].delta
    texts = [delta.content, getattr(delta, "reasoning_content", None)]
    texts += [call.function.arguments for call in delta.tool_calls or ()]
    return sum(len(text) for text in texts if isinstance(text, str))


def _text_of(piece: Any) -> str | None:
    choices = piece.choices
    text = choices[0].delta.content if choices else None
    return text if isinstance(text, str) else None


def _fix_calls(piece: Any, of_arguments: Mapping[int, WholeCharacters]) -> None:
    """Join the halves of characters in calls: litellm can't put pieces together that hold one."""
    for call in (piece.choices[0].delta.tool_calls or ()) if piece.choices else ():
        if call.id:
            call.id = whole_characters(call.id)
        if call.function.name:
            call.function.name = whole_characters(call.function.name)
        if call.function.arguments:
            call.function.arguments = of_arguments[call.index].feed(call.function.arguments)


def _completion(answer: Any, request: CompletionRequest, model: ChatModel) -> Completion:
    choices = getattr(answer, "choices", None)
    if not choices:
        raise _MalformedCompletion("it holds no choice")
    choice = choices[0]
    text = choice.message.content
    if isinstance(text, str):
        text = whole_characters(text)
    calls = [_tool_call(each) for each in choice.message.tool_calls or ()]
    if text is not None and not isinstance(text, str):
        raise _MalformedCompletion("its text is none")
    usage = getattr(answer, "usage", None)
    counted = bool(getattr(usage, "prompt_tokens", 0))
    prompt_tokens = getattr(usage, "prompt_tokens", 0) if counted else estimate_message_tokens(request.messages)
    completion_tokens = getattr(usage, "completion_tokens", 0) if counted else _estimated(text or "")
    return Completion(
        text=text,
        tool_calls=calls,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cost_usd=model.cost_usd(prompt_tokens, completion_tokens),
        tokens_are_counted=counted,
        is_cut=choice.finish_reason == "length",
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


def _tool_call(call: Any) -> ToolCall:
    function = call.function
    parts = (call.id, function.name, function.arguments)
    return ToolCall(*(whole_characters(str(part or "")) for part in parts))


def estimate_message_tokens(messages: Sequence[Message]) -> int:
    """Estimate tokens for limits, before the provider has counted: rather too many, a token of English has 4 bytes."""
    return sum(_estimated(json.dumps(dict(message), ensure_ascii=False)) for message in messages)


def _estimated(text: str) -> int:
    return len(text.encode(errors="replace")) // _BYTES_PER_TOKEN + 1
