"""Turns the answer of any provider into ours, whole or in pieces, with the same result.

A whole answer is a piece like any other: what comes in pieces is put together by the same code.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kb_shared.chat.answers.call_collector import CallCollector
from kb_shared.chat.answers.text_filter import TextFilter
from kb_shared.chat.answers.thought_fields import ThoughtFields, add_block
from kb_shared.chat.completion import ToolCall
from kb_shared.providers.openai_server import END_OF_STREAM, describes_error
from kb_shared.text.whole_characters import WholeCharacters

_CUT: Final = frozenset(
    {
        "length",
        "max_tokens",
        "max_output_tokens",
        "max_completion_tokens",
        "model_length",
        "model_context_window_exceeded",
        "context_length_exceeded",
        "token_limit",
        "truncated",
    }
)
_WITHHELD: Final = frozenset(
    {
        "content_filter",
        "content_filtered",
        "content-filter",
        "safety",
        "refusal",
        "blocked",
        "blocklist",
        "prohibited_content",
        "spii",
        "recitation",
        "guardrail_intervened",
        "sensitive",
        "moderation",
    }
)
_BROKEN: Final = frozenset(
    {
        "error",
        "abort",
        "aborted",
        "cancelled",
        "canceled",
        "failed",
        "timeout",
        "network_error",
        "server_error",
        "insufficient_system_resource",
        "malformed_function_call",
    }
)
"""Ends of an answer, beside those that mean that it is complete."""
_THOUGHT_PARTS: Final = ("think", "reason", "thought")
_CALL_PARTS: Final = frozenset({"tool_use", "tool_call", "function_call"})


class MalformedAnswer(Exception):
    """The answer can't be used; `str()` says why, quoting nothing of it."""


class WithheldAnswer(Exception):
    """The provider, or the model, refuses the answer or its end; `str()` says how."""


class NoAnswer(Exception):
    """A body of the status 200 that is no answer of OpenAI's kind; `body` is what came instead."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__("no `choices`")
        self.body = body


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """An answer that was read to its end."""

    text: str | None
    calls: Sequence[ToolCall]
    returned: Mapping[str, Any]
    """Fields of the message that go back to the provider with its calls."""
    is_cut: bool
    prompt_tokens: int
    completion_tokens: int
    """Tokens as the provider counted them; 0 if it did not."""
    thinks_aloud: bool | None
    """True if the text held thoughts without their beginning; None if the answer does not say."""


class AnswerReader:
    """Reads one answer."""

    def __init__(self, names: Sequence[str], *, is_json: bool, thinks_aloud: bool | None) -> None:
        """Construct it; the arguments are those of `TextFilter`."""
        self._text = TextFilter(names, is_json=is_json, thinks_aloud=thinks_aloud)
        self._calls = CallCollector(names)
        self._characters = WholeCharacters()
        self._thoughts = ThoughtFields()
        self._parts: list[dict[str, Any]] = []
        self._choice: object = None
        self._other: Mapping[str, Any] = {}
        """Body that came in the place of an answer."""
        self._has_null = self._has_empty = False
        self._has_message = self._has_delta = False
        self._finish = ""
        self._is_done = False
        self._refuses = False
        self._usage: Mapping[str, Any] = {}
        self.size = 0
        """Number of characters of all that was read."""

    def feed(self, piece: Mapping[str, Any]) -> str:
        """Take a piece; return the text that can be passed on."""
        self._is_done = self._is_done or END_OF_STREAM in piece
        self._note_usage(piece.get("usage"))
        groq = piece.get("x_groq")
        self._note_usage(groq.get("usage") if isinstance(groq, Mapping) else None)
        if "choices" not in piece:
            self._other = piece if piece.keys() - {END_OF_STREAM} else self._other
        choices = piece.get("choices")
        choices = choices if isinstance(choices, list) else [choices]
        return "".join(self._feed_choice(each) for each in choices if isinstance(each, Mapping))

    def end(self) -> str:
        """Return the rest of the text, when no piece follows."""
        text = self._text.feed(self._characters.end())
        return text + self._text.end()

    def answer(self) -> ReadAnswer:
        """Return what was read, after `end`.

        Raises:
            NoAnswer: it is something else.
            MalformedAnswer: it has no end, or ends with an error.
            WithheldAnswer: the provider or the model refuses it.
        """
        self._check_end()
        calls = self._calls.end()
        text = self._text.text
        if not calls:
            calls = [ToolCall("", each.name, each.arguments) for each in self._text.calls]
        says = self._text.ends_thoughts_alone or (False if text and not calls else None)
        return ReadAnswer(
            text=text or self._empty_content,
            calls=calls,
            returned=self._returned(text),
            is_cut=self._finish in _CUT,
            prompt_tokens=_count(self._usage, "prompt_tokens", "input_tokens"),
            completion_tokens=_count(self._usage, "completion_tokens", "output_tokens"),
            thinks_aloud=says,
        )

    @property
    def _empty_content(self) -> str | None:
        """Content of a message without a text, as this server writes it."""
        return None if self._has_null and not self._has_empty else ""

    def _check_end(self) -> None:
        if not self._has_message and self._other:
            raise NoAnswer(self._other)
        if not self._has_message:
            raise MalformedAnswer("it holds no choice")
        if not self._finish and not self._is_done:
            raise MalformedAnswer("it breaks off")
        if self._finish in _BROKEN:
            raise MalformedAnswer("it ends with an error")
        if self._finish in _WITHHELD:
            raise WithheldAnswer("has stopped the answer: its filter of contents does not allow it")
        if self._refuses:
            raise WithheldAnswer("says that the model refuses to answer")

    def _returned(self, text: str) -> dict[str, Any]:
        returned = self._thoughts.all()
        if any(_is_thought(part) for part in self._parts):
            returned["content"] = self._parts
        elif not text:
            returned["content"] = self._empty_content
        return returned

    def _feed_choice(self, choice: Mapping[str, Any]) -> str:
        index = choice.get("index")
        if self._choice is None:
            self._choice = index
        elif index is not None and index != self._choice:
            # Another answer to the same question.
            return ""
        self._note_usage(choice.get("usage"))
        finish = choice.get("finish_reason") or choice.get("stop_reason")
        if describes_error(choice.get("error")):
            finish = "error"
        if finish:
            self._finish = str(finish).rpartition(".")[2].casefold()
        message = self._message_of(choice)
        self._has_message = True
        return "" if message is None else self._feed_message(message)

    def _message_of(self, choice: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what a piece adds to the message; None if that is nothing."""
        delta, whole = choice.get("delta"), choice.get("message")
        if isinstance(delta, Mapping) and (delta or not isinstance(whole, Mapping)):
            self._has_delta = True
            return delta
        if isinstance(whole, Mapping):
            # The last piece of a stream may repeat all that came before.
            if self._has_delta and self.size:
                return None
            # A whole answer has an end, whether it says so or not.
            self._is_done = True
            return whole
        return {"content": choice["text"]} if isinstance(choice.get("text"), str) else None

    def _feed_message(self, message: Mapping[str, Any]) -> str:
        before = self._thoughts.size
        self._thoughts.feed(message)
        self.size += self._thoughts.size - before
        for name in ("tool_calls", "function_call"):
            if calls := message.get(name):
                self.size += len(json.dumps(calls))
                self._calls.feed({"function": calls} if name == "function_call" else calls)
        if message.get("refusal"):
            self._refuses = True
        audio = message.get("audio")
        if isinstance(audio, Mapping) and message.get("content") is None:
            return self._feed_content(audio.get("transcript"))
        return self._feed_content(message["content"]) if "content" in message else ""

    def _feed_content(self, content: object) -> str:
        self._has_null = self._has_null or content is None
        self._has_empty = self._has_empty or content == ""
        text = "".join(self._text_of(part) for part in (content if isinstance(content, list) else [content]))
        self.size += len(text)
        return self._text.feed(self._characters.feed(text)) if text else ""

    def _text_of(self, part: object) -> str:
        """Return the text of a content, or of one of its parts."""
        if part is None or isinstance(part, str):
            return part or ""
        if not isinstance(part, Mapping):
            return json.dumps(part)
        kind = str(part.get("type") or "")
        if kind in _CALL_PARTS:
            self._calls.feed(part)
            return ""
        add_block(self._parts, part)
        if kind == "refusal" or "refusal" in part:
            self._refuses = True
        if _is_thought(part):
            return ""
        return _plain_text(part, kind)

    def _note_usage(self, usage: object) -> None:
        if isinstance(usage, Mapping) and _count(usage, "prompt_tokens", "input_tokens"):
            self._usage = usage


def _is_thought(part: Mapping[str, Any]) -> bool:
    kind = str(part.get("type") or "")
    return part.get("thought") is True or any(word in kind for word in _THOUGHT_PARTS)


def _plain_text(part: Mapping[str, Any], kind: str) -> str:
    for name in ("text", "content", "output_text", "value"):
        value = part.get(name)
        if isinstance(value, Mapping):
            value = value.get("value") or value.get("text")
        if isinstance(value, str):
            return value
    # An object without a type is the answer that a schema asked for.
    return "" if kind else json.dumps(dict(part), ensure_ascii=False)


def _count(usage: Mapping[str, Any], *names: str) -> int:
    for name in names:
        value = usage.get(name)
        if isinstance(value, str) and value.isdecimal():
            value = int(value[:12])
        if isinstance(value, int | float) and value > 0:
            return int(value)
    return 0
