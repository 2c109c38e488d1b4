"""Finds the instructions in a text: calls of tools, in every syntax that models write, and words to say. Pure."""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.injection.text_decodings import decode_all

_CALL: Final = re.compile(
    r"(?:\bCALL |<function=|\bAction: ?|to=functions\.|tool▁sep\uff5c>|<tool_name>|\btool: ?)([A-Za-z_][\w.-]*)"
)
"""Before the name of a tool whose arguments follow as JSON."""
_PYTHON: Final = re.compile(r"\b((?:\w+\.)*[A-Za-z_]\w*)(\([^()]*\w\s*=[^()]*\))")
_INVOKE: Final = re.compile(r"<(?:\w+:)?invoke name=\"([^\"]+)\">(.*?)</(?:\w+:)?invoke>", re.DOTALL)
_PARAMETER: Final = re.compile(r"<(?:\w+:)?parameter name=\"([^\"]+)\">(.*?)</(?:\w+:)?parameter>", re.DOTALL)
_YAML: Final = re.compile(r"^tool: ?(\w+)\n(?:arguments|with):\n((?:  \w+: .*(?:\n|\Z))+)", re.MULTILINE)
_IN_WORDS: Final = re.compile(
    r"\b(?:use|call|run|invoke|query|ask|open|nutze|appelle|usa)\b[^\n\"]{0,80}?\b(\w+_\w+)\b([^\n{(]*)", re.IGNORECASE
)
_NAMED: Final = re.compile(r"\b(\w+_ids?|mode|top_k|min_score|skip|limit) \"?([^\s\",.]+)\"?")
_QUOTED: Final = re.compile(r"\"([^\"\n]+)\"")
_NAMES: Final = ("name", "tool", "tool_name", "recipient_name", "function", "action")
_ARGUMENTS: Final = ("arguments", "parameters", "input", "args", "params", "action_input")

_SAY: Final = re.compile(
    r"\b(?:say|write|reply|answer|respond|output|print|display|show|append|add|insert|include|render|embed|finish|end|"
    r"begin|start|repeat|emit|return|paste|put|state|quote|cite|translate|attach|draw|link|schreibe|antworte|réponds|"
    r"écris|escribe|responde)\b",
    re.IGNORECASE,
)
_OPENED: Final = re.compile(r"\"|`+|«|:[ \t]*+\n?+(?![\"`«])")
_CLOSING: Final = {'"': '"', "«": "»"}
_FAR: Final = 160
"""Greatest distance between a verb and its object."""
_ENDLESS: Final = re.compile(
    r"again and again|for ?ever|without end|never stop|endless|keep (?:on )?(?:calling|searching)|do not stop|"
    r"in a loop|infinite|until you are told|ohne ende|every time you are asked",
    re.IGNORECASE,
)
_UNCITED: Final = re.compile(r"\bcite nothing\b", re.IGNORECASE)
_TIMES: Final = re.compile(r"\b(\d{2,6}) (?:times|different)\b")


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class InjectedInstructions:
    calls: Sequence[Call]
    words: Sequence[str]
    """Words that the model must say, with `{secret}` in place of the secret."""
    is_endless: bool
    """True if the calls are to be made as long as the model is asked."""
    times: int
    """Number of times that each is to be done at once."""
    is_uncited: bool
    """True if the answer must not cite."""


def find_instructions(*texts: str) -> InjectedInstructions:
    """Return the instructions in these texts, in every encoding."""
    read = [reading for text in texts for reading in decode_all(text)]
    calls = dict.fromkeys(call for text in read for call in _calls(text))
    words = dict.fromkeys(said for text in read for said in _words(text))
    times = (int(found[1]) for text in read for found in _TIMES.finditer(text))
    return InjectedInstructions(
        tuple(calls),
        tuple(words),
        is_endless=any(map(_ENDLESS.search, read)),
        times=max(times, default=1),
        is_uncited=any(map(_UNCITED.search, read)),
    )


def _calls(text: str) -> Iterator[Call]:
    for value in _json_in(text):
        yield from _calls_in(value)
    for found in _CALL.finditer(text):
        if (arguments := _braces_after(text, found.end())) is not None:
            yield Call(found[1], arguments)
    for found in _PYTHON.finditer(text):
        yield from _python_call(found[1].rsplit(".", 1)[-1], found[2])
    for found in _INVOKE.finditer(text):
        yield _call(found[1], {name: _value(value) for name, value in _PARAMETER.findall(found[2])})
    for found in _YAML.finditer(text):
        lines = (line.strip().split(": ", 1) for line in found[2].splitlines())
        yield _call(found[1], {name: _value(value) for name, value in lines})
    for found in _IN_WORDS.finditer(text):
        if quoted := _QUOTED.search(found[2]):
            yield _call(
                found[1], {"query": quoted[1]} | {name: _value(value) for name, value in _NAMED.findall(found[2])}
            )


def _call(name: str, arguments: Any) -> Call:
    return Call(name, arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False))


def _value(written: str) -> Any:
    try:
        return json.loads(written)
    except ValueError:
        return written.strip("'\"")


def _json_in(text: str) -> Iterator[Any]:
    decoder, end = json.JSONDecoder(strict=False), 0
    for found in re.finditer(r"[{\[]", text):
        if found.start() < end:
            continue
        try:
            value, end = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            continue
        yield value


def _calls_in(value: Any) -> Iterator[Call]:
    if isinstance(value, list):
        for each in value:
            yield from _calls_in(each)
    elif isinstance(value, dict):
        name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
        arguments = next((value[key] for key in _ARGUMENTS if key in value), None)
        if name is not None and isinstance(arguments, str | dict):
            yield _call(name.rsplit(".", 1)[-1], arguments)
        for each in value.values():
            yield from _calls_in(each)


def _braces_after(text: str, position: int) -> str | None:
    """Give the JSON that follows soon, or what was meant for it."""
    begins = text.find("{", position, position + 100)
    if begins < 0:
        return None
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(text, begins)
    except (ValueError, RecursionError):
        # A model writes bad JSON, too.
        ends = re.compile(r"END|\n\n|\Z").search(text, begins)
        end = len(text) if ends is None else ends.start()
    return text[begins:end].strip()


def _python_call(name: str, arguments: str) -> Iterator[Call]:
    try:
        parsed = ast.parse("f" + arguments, mode="eval").body
        assert isinstance(parsed, ast.Call)
        yield _call(name, {each.arg or "": ast.literal_eval(each.value) for each in parsed.keywords})
    except (SyntaxError, ValueError):
        return


def _words(text: str) -> Iterator[str]:
    end = 0
    for found in _SAY.finditer(text):
        if found.start() < end:
            continue
        opened = _OPENED.search(text, found.end(), found.end() + _FAR)
        if opened is None:
            continue
        closing = _CLOSING.get(opened[0], opened[0])
        ends = text.find("\n", opened.end()) if opened[0][0] == ":" else text.find(closing, opened.end())
        end = len(text) if ends < 0 else ends
        if said := text[opened.end() : end].strip("\n"):
            yield said
