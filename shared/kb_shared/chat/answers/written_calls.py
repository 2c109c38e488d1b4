"""Finds calls of tools that a model has written into its text, in the notations of common models.

Servers that know a model's notation turn it into calls of their own; others pass the text on. A text is a call only if
it names a tool that was offered.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import regex

from kb_shared.chat.answers.tool_names import known_name
from kb_shared.chat.answers.written_values import decode_call, decode_value

_NAME_KEYS: Final = ("name", "tool_name", "tool", "function", "recipient_name", "action")
_ARGUMENT_KEYS: Final = ("arguments", "parameters", "args", "input", "params", "kwargs", "tool_input", "action_input")
_LISTS_OF_CALLS: Final = ("tool_calls", "tool_uses", "calls", "function_calls")
_LONGEST_TEXT: Final = 60_000
_MOST_CALLS: Final = 64
_MOST_NESTING: Final = 4
_MOST_FAILURES: Final = 20
"""Values that can't be read, after which no more are looked for."""
_MARKERS: Final = r"""
    </?(?:\w{1,10}[:_])?(?:tool_?calls?|tool_?uses?|TOOLCALLS?|function_?calls?|tools?)>
  | <start_function_call> | <\|tool_call>
  | <(?:\w{1,10}:)?(?:function|invoke|call)[\s=]
  | <\|/?tool_?calls?(?:_(?:start|begin|section_begin))?\|>
  | <\|python_(?:tag|start)\|> | <\|(?:plugin|action_start|START_ACTION|tool|tools_prefix)\|> | <\uff5cDSML\uff5c
  | \[TOOL_CALLS\] | functools\[
  | <\uff5ctool[▁_]calls?[▁_]begin\uff5c> | ✿FUNCTION✿
  | <\|channel\|>(?:commentary|analysis)\s{0,4}to=
  | commentary\s{1,4}to=functions\. | (?<!\w)to=functions\.
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
    """Arguments as JSON: an object, or a text where the model gives no more."""


def build_beginnings(names: Sequence[str]) -> str:
    """Return a pattern, in the group `calls`, of what a written call begins with. It is for `regex.VERBOSE`."""
    any_name = "|".join(regex.escape(name, literal_spaces=False) for name in names)
    named = rf"""(?:functions?\.|tools?\.|default_api\.|call:)?(?i:{any_name})"""
    keys = "|".join(_NAME_KEYS)
    others = "|".join((*_ARGUMENT_KEYS, *_LISTS_OF_CALLS, "id", "type", "call_id", "tool_call_id", "function"))
    fence = r"(?:```\w{0,12}\s{0,20})?"
    opening = r"(?:\[\s{0,20})?\{\s{0,20}[\"']"
    before_python = rf"{fence}(?:\w{{1,30}}\s{{0,2}}=\s{{0,2}})?(?:print\(|\[)?"
    return rf"""(?P<calls>
        {_MARKERS}
      | {fence}{opening}(?:{keys})["']\s{{0,20}}:\s{{0,20}}["']{named}["']
      | (?<![^\n]){fence}{opening}(?:{others})["']\s{{0,20}}:
      | (?<![^\n]){fence}{opening}{named}["']\s{{0,20}}:\s{{0,20}}\{{
      | (?<![^\n])<(?i:{any_name})>
      | (?<![^\n])(?:>>>|{before_python}){named}(?:\.call)?\s{{0,4}}(?:[({{]|\[ARGS\]|:\d)
    )"""


def find_written_calls(text: str, names: Sequence[str]) -> list[WrittenCall]:
    """Return the calls in a text, in their order: none unless all that looks like one names one of `names`."""
    if len(text) > _LONGEST_TEXT:
        return []
    text = _with_json_texts(text.replace(_DSML, ""))
    found = list(_in_tags(text, names)) or list(_in_values(text, names)) or list(_in_lines(text, names))
    return [WrittenCall(name, _to_json(arguments)) for name, arguments in found[:_MOST_CALLS]]


_DSML: Final = "\uff5cDSML\uff5c"
"""Mark of DeepSeek within each of its tags."""
_QUOTE: Final = regex.compile(r"<escape>|<\|\"\|>")
"""Marks of Gemma around a text."""
_BARE_KEY: Final = regex.compile(r"(?P<before>[{,]\s{0,20})(?P<key>\w{1,100})(?=\s{0,20}:)")


def _with_json_texts(text: str) -> str:
    """Return a text in which what stands between Gemma's marks is a string of JSON, and the keys beside it, too."""
    pieces = _QUOTE.split(text)
    if len(pieces) < 2:
        return text
    return "".join(
        json.dumps(piece, ensure_ascii=False) if at % 2 else _BARE_KEY.sub(r'\g<before>"\g<key>"', piece)
        for at, piece in enumerate(pieces)
    )


def is_only_markers(text: str) -> bool:
    """Return whether nothing is left of a text without the marks that stand around calls."""
    return not _IGNORED.sub("", text).strip()


_FUNCTION: Final = regex.compile(
    r"<(?:\w{1,10}:)?(?:function=|(?:invoke|function|call)\s{1,4}name=[\"']?)(?P<name>[^\s\"'<>=]{1,200})[\"']?\s{0,4}>"
    r"(?P<inside>(?:(?!<(?:\w{1,10}:)?(?:function=|invoke\s)|</(?:\w{1,10}:)?(?:function|invoke)>).)*)",
    regex.DOTALL,
)
_PARAMETER: Final = regex.compile(
    r"<(?:\w{1,10}:)?(?:parameter=|(?:parameter|param|arg)\s{1,4}name=[\"']?)(?P<key>[^\s\"'<>=]{1,200})[\"']?(?:\s[^<>]{0,60})?>"
    r"(?P<value>(?:(?!</?(?:\w{1,10}:)?(?:parameter|param|arg)\b).)*)",
    regex.DOTALL,
)
_PAIRS: Final = regex.compile(
    r"<tool_call>\s{0,20}(?P<name>[^\s<>{}\"]{1,200})\s{0,20}(?P<inside><arg_key>(?:(?!</?tool_call>).)*)", regex.DOTALL
)
_KEY_TAG: Final = regex.compile(r"<(?P<key>\w{1,200})>(?P<value>(?>(?:[^<]|<(?!/?\w))*))</(?P=key)>")
_PAIR: Final = regex.compile(
    r"<arg_key>(?P<key>(?:(?!</arg_key>).)*)</arg_key>\s{0,20}<arg_value>(?P<value>(?:(?!</arg_value>).)*)",
    regex.DOTALL,
)


def _in_tags(text: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield calls whose arguments are tags, as Qwen3-Coder, GLM, MiniMax, Claude and those of Cline write them."""
    for pattern, parameter in ((_FUNCTION, _PARAMETER), (_PAIRS, _PAIR), (_tag_of(names), _KEY_TAG)):
        for found in pattern.finditer(text):
            name = known_name(found["name"], names)
            if name not in names:
                continue
            inside = found["inside"].strip()
            arguments: Any = {each["key"].strip(): _value_of(each["value"]) for each in parameter.finditer(inside)}
            if not arguments and inside.startswith("{"):
                arguments = decode_value(inside, 0)[0]
            if isinstance(arguments, Mapping):
                yield name, arguments


def _tag_of(names: Sequence[str]) -> Any:
    """Return the pattern of a tag that has the name of a tool."""
    any_name = "|".join(regex.escape(name) for name in names)
    return regex.compile(
        rf"<(?P<name>(?i:{any_name}))>(?P<inside>\s{{0,20}}<\w(?>(?:(?!</?(?P=name)>).)*))</(?P=name)>", regex.DOTALL
    )


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
        r"|commentary|[,:]|</?\w{1,20}>|✿\w{1,20}✿|Action Input:){0,12}(?P<opening>\(|\{)|(?P<value>[\[{])"
    )
    at = failures = 0
    while failures < _MOST_FAILURES and (found := named.search(text, at)) is not None:
        if found["value"] is not None:
            value, end = decode_value(text, found.start())
            calls = list(_calls_of(value, names))
            yield from calls
            # What is no call may hold one: a list around calls of Python, or a broken object.
            at = end if calls or isinstance(value, Mapping) else found.end()
            failures += not calls
            continue
        name = known_name(found["name"], names)
        decode = decode_value if found["opening"] == "{" else decode_call
        arguments, at = decode(text, found.start("opening"))
        if isinstance(arguments, Mapping | str):
            yield name, arguments
        else:
            failures += 1


_ACTION: Final = regex.compile(
    r"(?<![^\n])Action:\s{0,4}(?P<name>[^\s(]{1,200})\s{0,8}\nAction Input:[^\S\n]{0,4}(?P<text>[^\n]{1,2000})"
)


def _in_lines(text: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield calls whose argument is a text without a name, as ReAct has it."""
    for found in _ACTION.finditer(text):
        name = known_name(found["name"], names)
        if name in names:
            yield name, found["text"].strip().strip("\"'")


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
        stripped = arguments.strip()
        arguments = decode_value(stripped, 0)[0] if stripped.startswith("{") else stripped or {}
    if name in names and isinstance(arguments, Mapping | str):
        yield name, arguments


def _to_json(arguments: Any) -> str:
    return json.dumps(arguments, ensure_ascii=False)
