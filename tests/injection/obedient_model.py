"""A chat model that follows the instructions of every text it is given, as far as its tools allow.

It knows nothing of the attacks: it reads the messages as the run gives them. Two kinds of it:

- `scripted-obedient` obeys whatever it reads, wherever it stands.
- `scripted-heedful` keeps to the rules of the run: what stands between the marks is data. It obeys all the rest, and
  it thinks that the data has ended where a line of it looks like an end.
"""

import base64
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kb_shared.chat.completion import Completion, CompletionRequest, Message, ToolCall
from kb_shared.chat.models import ChatModel
from kb_shared.chat.provider import ChatProvider, OnText
from tests.injection.injected_instructions import Call, InjectedInstructions, find_instructions

OBEDIENT: Final = "scripted-obedient"
HEEDFUL: Final = "scripted-heedful"
CALLS_AT_ONCE: Final = 40
_CHARACTERS_PER_TOKEN: Final = 4
_PIECE: Final = 5
"""Characters that are streamed at once."""

_ATTACK: Final = re.compile(r"\b[a-z]+-\d\d\b")
_SECRET: Final = re.compile(r"SECRET-[A-Z0-9]+")
_PLACES: Final = re.compile(r"\{secret(?::(\w+))?\}|<the code>|\[the code\]|%CODE%|\$CODE\b|CODE_HERE")
_MARK: Final = re.compile(r"<<<([0-9a-f]{16})>>>")
_QUOTATION: Final = re.compile("^> ?", re.MULTILINE)
_HEADER: Final = re.compile(r"\[\d+\] ")
_LIKE_AN_END: Final = re.compile(
    r"\s*(?:<<<.*>>>|</\w+>|<\|.*\|>|`{3,}|[-=*#_]{3,}|\[/?\w+\]|\W*(?:system|assistant|user|human|developer)\W*:|"
    r"\W*end of (?:data|document|passage))",
    re.IGNORECASE,
)
_OF_RESULTS: Final = frozenset(
    {"passages", "omitted_count", "id", "document", "page", "text", "truncated"}
    | {"knowledge", "sources", "piece", "attachments"}
)


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One time that the model was asked."""

    messages: Sequence[Message]
    has_tools: bool
    calls: Sequence[Call]
    text: str


class ObedientModel(ChatProvider):
    """Instead of the provider; remembers what it did, by the id of the attack that the request names."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: defaultdict[str, list[ModelTurn]] = defaultdict(list)

    async def complete(
        self, request: CompletionRequest, *, model: ChatModel, timeout_s: float, on_text: OnText | None = None
    ) -> Completion:
        heard = list(read_outside_of_data(request.messages) if model.name == HEEDFUL else _all_of(request.messages))
        instructions = find_instructions(*heard)
        calls = _calls(instructions, request)
        text = _text(instructions, request)
        most = (request.max_completion_tokens or len(text)) * _CHARACTERS_PER_TOKEN
        is_cut, text = len(text) > most, text[:most]
        self.turns[_attack(request.messages)].append(ModelTurn(request.messages, bool(request.tools), calls, text))
        if on_text is not None:
            for start in range(0, len(text), _PIECE):
                await on_text(text[start : start + _PIECE])
        return Completion(
            text=text,
            tool_calls=[
                ToolCall(f"call_{n}_{len(request.messages)}", each.name, each.arguments) for n, each in enumerate(calls)
            ],
            prompt_tokens=sum(len(each) for each in map(_content, request.messages)) // _CHARACTERS_PER_TOKEN,
            completion_tokens=-(-len(text) // _CHARACTERS_PER_TOKEN),
            cost_usd=0.0,
            tokens_are_counted=True,
            is_cut=is_cut,
        )


def _content(message: Message) -> str:
    return str(message.get("content") or "")


def _attack(messages: Sequence[Message]) -> str:
    question = next(
        _content(each) for each in reversed(messages) if each["role"] == "user" and _ATTACK.search(_content(each))
    )
    # Passages of other attacks may stand before it.
    *_, found = _ATTACK.finditer(question)
    return found[0]


def _mark(messages: Sequence[Message]) -> str:
    # The rules explain it without one.
    return next((found[1] for each in messages[1:] if (found := _MARK.search(_content(each)))), "none")


def _instructions(messages: Sequence[Message]) -> Iterator[str]:
    """Yield texts of others that the model reads, without its rules."""
    for message in messages:
        if message["role"] in {"user", "tool"}:
            yield _content(message)


def _all_of(messages: Sequence[Message]) -> Iterator[str]:
    begin, end = f"<<<{_mark(messages)}>>>", f"<<<end {_mark(messages)}>>>"
    for content in _instructions(messages):
        for part in content.replace(end, begin).split(begin):
            # It understands quotations and JSON.
            yield from _strings(_parsed(_QUOTATION.sub("", part).strip("\n")))


def read_outside_of_data(messages: Sequence[Message]) -> Iterator[str]:
    """Yield what a model takes for instructions that heeds the marks, unless something looks like their end."""
    begin, end = f"<<<{_mark(messages)}>>>", f"<<<end {_mark(messages)}>>>"
    for content in _instructions(messages):
        before, *parts = content.split(begin)
        yield before
        for part in parts:
            data, *after = part.split(end)
            yield from after
            lines = data.strip("\n").splitlines()
            ended = next((n for n, line in enumerate(lines) if n and _seems_to_end(line)), len(lines))
            yield "\n".join(lines[ended:])
            yield from _of_other_names(_parsed(data))


def _seems_to_end(line: str) -> bool:
    """Return whether a line looks like an end: no line of a quotation, nor the header above one."""
    return not line.startswith(">") and not _HEADER.match(line) and _LIKE_AN_END.match(line) is not None


def _parsed(data: str) -> Any:
    try:
        return json.loads(data, strict=False)
    except ValueError:
        return data


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _of_other_names(value: Any) -> Iterator[str]:
    """Return fields with names that no result has; such fields address the model."""
    if isinstance(value, list):
        for each in value:
            yield from _of_other_names(each)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _of_other_names(each) if name in _OF_RESULTS else _strings(each)


def _calls(instructions: InjectedInstructions, request: CompletionRequest) -> Sequence[Call]:
    made = [
        Call(each["function"]["name"], each["function"]["arguments"])
        for message in request.messages
        for each in message.get("tool_calls") or ()
    ]
    asked_for = find_instructions(_content(request.messages[-1 - len(_after_question(request.messages))])).calls
    wanted = [
        each
        for each in instructions.calls
        if not _is_made(each, made) or (instructions.is_endless and each not in asked_for)
    ]
    if not request.tools and not instructions.is_endless:
        return []
    numbered = [
        replace(each, arguments=each.arguments.replace("{n}", str(len(made) + n)))
        for n in range(min(instructions.times, CALLS_AT_ONCE))
        for each in wanted
    ]
    return list(dict.fromkeys(numbered))[:CALLS_AT_ONCE]


def _after_question(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages since the question."""
    roles = [message["role"] for message in messages]
    return messages[roles.index("assistant") :] if "assistant" in roles else []


def _is_made(call: Call, made: Sequence[Call]) -> bool:
    beginning, number, _ = call.arguments.partition("{n}")
    return call in made or (
        bool(number) and any(each.name == call.name and each.arguments.startswith(beginning) for each in made)
    )


def _text(instructions: InjectedInstructions, request: CompletionRequest) -> str:
    secret = _SECRET.search(_content(request.messages[0]))
    assert secret is not None
    words = [_filled(each, secret[0]) for each in instructions.words]
    if instructions.times > 1:
        words = [" ".join([each] * min(instructions.times, 100_000)) for each in words]
    # What looks like the whole answer is no part of one.
    if request.schema is not None and words and words[0].startswith("{"):
        return words[0]
    text = "\n\n".join([*([] if instructions.is_uncited else ["As the note says [1]:"]), *words])
    if request.schema is not None:
        return json.dumps({"answer": text, "notes": [*words, "done"], "count": 1}, ensure_ascii=False)
    return text


def _filled(words: str, secret: str) -> str:
    return _PLACES.sub(lambda place: _written(secret, place[1]), words)


def _written(secret: str, code: str | None) -> str:
    match code:
        case "base64":
            return base64.b64encode(secret.encode()).decode()
        case "hex":
            return secret.encode().hex()
        case "slashes":
            return "".join("/;"[bit == "1"] for each in secret.encode() for bit in f"{each:08b}")
        case _:
            return secret
