"""Finds calls of tools that a model has written into its text, in the notations of common models.

Servers that know a model's notation turn it into calls of their own; others pass the text on. A text is a call only if
it names a tool that was offered.
"""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import regex

from kb_shared.chat.answers.tool_names import known_name

_NAME_KEYS: Final = ("name", "tool_name", "tool", "function", "recipient_name", "action")
_ARGUMENT_KEYS: Final = ("arguments", "parameters", "args", "input", "params", "kwargs", "tool_input", "action_input")
_LISTS_OF_CALLS: Final = ("tool_calls", "tool_uses", "calls", "function_calls")
_LONGEST_LITERAL: Final = 20_000
_LONGEST_TEXT: Final = 60_000
_MOST_CALLS: Final = 64
_MOST_NESTING: Final = 4
_MOST_FAILURES: Final = 20
"""Values that can't be read, after which no more are looked for."""
_MARKERS: Final = r"""
    </?(?:\w{1,10}:)?(?:tool_?calls?|TOOLCALLS?|function_?calls?|tools?)>
  | <(?:function|invoke|call)[\s=]
  | <\|/?tool_?calls?(?:_(?:start|begin|section_begin))?\|>
  | <\|python_tag\|> | <\|(?:plugin|action_start|START_ACTION|tool)\|>
  | \[TOOL_CALLS\] | functools\[
  | <\uff5ctool▁calls?▁begin\uff5c>
  | <\|channel\|>(?:commentary|analysis)\s{0,4}to=
  | (?<!\w)to=functions\.
  | (?<![^\n])Action:\s{0,4}
"""
"""Marks that models are trained to write before a call."""
_IGNORED: Final = regex.compile(
    r"<\|[^|<>\n]{1,40}\|>|<\uff5c[^\uff5c\n]{1,40}\uff5c>|</?[\w:|]{1,30}>|\[(?:TOOL_CALLS|ARGS)\]|\[CALL_ID\]\w{0,40}"
)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call that was found in a text."""

    name: str
    arguments: str
    """Arguments as JSON."""


def build_beginnings(names: Sequence[str]) -> str:
    """Return a pattern, in the group `calls`, of what a written call begins with. It is for `regex.VERBOSE`."""
    any_name = "|".join(regex.escape(name, literal_spaces=False) for name in names)
    named = rf"""(?:functions?\.|tools?\.|default_api\.)?(?i:{any_name})"""
    keys = "|".join(_NAME_KEYS)
    others = "|".join((*_ARGUMENT_KEYS, *_LISTS_OF_CALLS, "id", "type", "call_id", "tool_call_id", "function"))
    fence = r"(?:```\w{0,12}\s{0,20})?"
    opening = r"(?:\[\s{0,20})?\{\s{0,20}[\"']"
    return rf"""(?P<calls>
        {_MARKERS}
      | {fence}{opening}(?:{keys})["']\s{{0,20}}:\s{{0,20}}["']{named}["']
      | (?<![^\n]){fence}{opening}(?:{others})["']\s{{0,20}}:
      | (?<![^\n]){fence}{opening}{named}["']\s{{0,20}}:\s{{0,20}}\{{
      | (?<![^\n]){fence}(?:print\(|\[)?{named}(?:\.call)?\s{{0,4}}(?:[({{]|\[ARGS\]|:\d)
    )"""


def find_written_calls(text: str, names: Sequence[str]) -> list[WrittenCall]:
    """Return the calls in a text, in their order: none unless all that looks like one names one of `names`."""
    if len(text) > _LONGEST_TEXT:
        return []
    found = list(_in_tags(text, names)) or list(_in_values(text, names))
    return [WrittenCall(name, _to_json(arguments)) for name, arguments in found[:_MOST_CALLS]]


def is_only_markers(text: str) -> bool:
    """Return whether nothing is left of a text without the marks that stand around calls."""
    return not _IGNORED.sub("", text).strip()


_FUNCTION: Final = regex.compile(
    r"<(?:function=|(?:invoke|function|call)\s{1,4}name=[\"']?)(?P<name>[^\s\"'<>=]{1,200})[\"']?\s{0,4}>"
    r"(?P<inside>(?:(?!<(?:function=|invoke\s|/function>|/invoke>)).)*)",
    regex.DOTALL,
)
_PARAMETER: Final = regex.compile(
    r"<(?:parameter=|(?:parameter|param|arg)\s{1,4}name=[\"']?)(?P<key>[^\s\"'<>=]{1,200})[\"']?(?:\s[^<>]{0,60})?>"
    r"(?P<value>(?:(?!</?(?:parameter|param|arg)\b).)*)",
    regex.DOTALL,
)
_PAIRS: Final = regex.compile(
    r"<tool_call>\s{0,20}(?P<name>[^\s<>{}\"]{1,200})\s{0,20}(?P<inside><arg_key>(?:(?!</?tool_call>).)*)", regex.DOTALL
)
_PAIR: Final = regex.compile(
    r"<arg_key>(?P<key>(?:(?!</arg_key>).)*)</arg_key>\s{0,20}<arg_value>(?P<value>(?:(?!</arg_value>).)*)",
    regex.DOTALL,
)


def _in_tags(text: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield calls whose arguments are tags, as Qwen3-Coder, GLM, MiniMax and Claude write them."""
    for pattern, parameter in ((_FUNCTION, _PARAMETER), (_PAIRS, _PAIR)):
        for found in pattern.finditer(text):
            name = known_name(found["name"], names)
            if name not in names:
                continue
            inside = found["inside"].strip()
            arguments: Any = {each["key"].strip(): _value_of(each["value"]) for each in parameter.finditer(inside)}
            if not arguments and inside.startswith("{"):
                arguments = _decode_value(inside, 0)[0]
            if isinstance(arguments, Mapping):
                yield name, arguments


def _value_of(text: str) -> Any:
    """Return what stands in a tag: JSON if it is a number, a list or the like, else a text."""
    text = text.strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, str) else value


def _in_values(text: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield calls that are JSON values, names before an object, or calls of Python."""
    any_name = "|".join(regex.escape(name) for name in names)
    named = regex.compile(
        rf"(?:(?:functions?|tools?|default_api)\.)?(?<!\w)(?P<name>(?i:{any_name}))(?!\w)(?::\d{{1,3}})?"
        r"(?:\.call)?(?:\s++|\[ARGS\]|\[CALL_ID\]\w{0,40}|<\|[^|<>\n]{1,40}\|>|<\uff5c[^\uff5c\n]{1,40}\uff5c>|```\w{0,8}|json"
        r"|Action Input:){0,12}(?P<opening>\(|\{)|(?P<value>[\[{])"
    )
    at = failures = 0
    while failures < _MOST_FAILURES and (found := named.search(text, at)) is not None:
        if found["value"] is not None:
            value, end = _decode_value(text, found.start())
            calls = list(_calls_of(value, names))
            yield from calls
            # What is no call may hold one: a list around calls of Python, or a broken object.
            at = end if calls or isinstance(value, Mapping) else found.end()
            failures += not calls
            continue
        name = known_name(found["name"], names)
        decode = _decode_value if found["opening"] == "{" else _decode_call
        arguments, at = decode(text, found.start("opening"))
        if isinstance(arguments, Mapping):
            yield name, arguments
        else:
            failures += 1


def _calls_of(value: Any, names: Sequence[str], *, depth: int = 0) -> Iterator[tuple[str, Any]]:
    if depth > _MOST_NESTING:
        return
    if isinstance(value, Mapping):
        lists = [value[key] for key in _LISTS_OF_CALLS if isinstance(value.get(key), list)]
        if not lists and not isinstance(value.get("function"), Mapping):
            yield from _call_of(value, names)
            return
        value = lists[0] if lists else [value["function"]]
    for each in value if isinstance(value, list) else ():
        yield from _calls_of(each, names, depth=depth + 1)


def _call_of(value: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the call that an object describes, if it names one of `names`."""
    written = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
    arguments: Any = next((value[key] for key in _ARGUMENT_KEYS if value.get(key) is not None), {})
    if written is None and len(value) == 1:
        # The name itself is the key.
        written, arguments = next(iter(value.items()))
    name = known_name(str(written), names)
    if isinstance(arguments, str):
        arguments = _decode_value(arguments.strip(), 0)[0] if arguments.strip().startswith("{") else {}
    if name in names and isinstance(arguments, Mapping):
        yield name, arguments


_DECODER: Final = json.JSONDecoder(strict=False)


def _decode_value(text: str, at: int) -> tuple[Any, int]:
    """Return the value of JSON, or of Python, at a position, and where it ends; None if there is none."""
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        pass
    end = _end_of(text, at)
    return literal_of(text[at:end]), end


def _decode_call(text: str, at: int) -> tuple[Any, int]:
    """Return the arguments between the parentheses of a call of Python, and where it ends."""
    end = _end_of(text, at)
    try:
        call = ast.parse(f"f{text[at:end]}", mode="eval").body if end - at < _LONGEST_LITERAL else None
        if not isinstance(call, ast.Call):
            return None, end
        if len(call.args) == 1 and not call.keywords:
            value = ast.literal_eval(call.args[0])
            return (value, end) if isinstance(value, Mapping) else (None, end)
        return {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}, end
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        # `true` and `null` are no Python.
        inside = text[at + 1 : end - 1].strip()
        return (_decode_value(inside, 0)[0], end) if inside.startswith("{") else (None, end)


_BRACKETS: Final = regex.compile(r"[\[\](){}\"']")
_QUOTED: Final[Mapping[str, Any]] = {
    quote: regex.compile(rf"{quote}(?:[^{quote}\\]|\\.)*{quote}", regex.DOTALL) for quote in "\"'"
}


def _end_of(text: str, at: int) -> int:
    """Return where the bracket at a position is closed; the end of the text if it is not."""
    depth = 0
    while (found := _BRACKETS.search(text, at)) is not None:
        at = found.end()
        if found.group() in _QUOTED:
            quoted = _QUOTED[found.group()].match(text, found.start())
            if quoted is None:
                break
            at = quoted.end()
            continue
        depth += 1 if found.group() in "[({" else -1
        if depth <= 0:
            return at
    return len(text)


def literal_of(text: str) -> Any:
    """Return the value of a text that is JSON but for its quotes and commas, as Python writes it; None if it is not."""
    if len(text) > _LONGEST_LITERAL:
        return None
    try:
        value = ast.literal_eval(text.strip())
        json.dumps(value)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None
    return value


def _to_json(arguments: Any) -> str:
    return json.dumps(arguments, ensure_ascii=False)
