"""Puts the calls of an answer together from its pieces, however a server numbers them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import regex

from kb_shared.chat.answers.tool_names import known_name
from kb_shared.chat.answers.written_values import literal_of
from kb_shared.chat.completion import ToolCall
from kb_shared.text.whole_characters import whole_characters

_NOT_KEPT: Final = frozenset({"id", "index", "type", "function", "name", "arguments", "args", "input", "parameters"})
_ARGUMENTS: Final = ("arguments", "parameters", "args", "input")
_FENCED: Final = regex.compile(r"```\w{0,12}\s{0,20}(?P<inside>.*?)\s{0,20}(?:```)?", regex.DOTALL)
_CLOSING: Final = regex.compile(r"(?:[\s}\]`;]|</?\w{1,20}>|<\|[^|<>]{1,40}\|>)*")
"""Characters that may follow the arguments: the rest of a wrapper that the model wrote around them."""
_NOTHING_YET: Final = regex.compile(r"\A\{\}\s{0,20}(?=\{)")
"""Empty arguments with which some servers begin a call whose arguments come then."""
_MOST_ENCODINGS: Final = 3


@dataclass(slots=True)
class _OpenCall:
    index: str | None
    call_id: str
    piece: int
    """Number of the piece in which it began."""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    depth: int = 0
    """Brackets of the arguments that are open."""
    is_in_string: bool = False
    is_escaped: bool = False

    def append(self, arguments: str) -> None:
        if not self.arguments:
            arguments = arguments.lstrip()
        if arguments:
            self.arguments.append(arguments)
        for character in arguments:
            if self.is_in_string:
                if self.is_escaped or character == "\\":
                    self.is_escaped = not self.is_escaped
                elif character == '"':
                    self.is_in_string = False
            elif character == '"':
                self.is_in_string = True
            elif character in "[{":
                self.depth += 1
            elif character in "]}":
                self.depth -= 1

    @property
    def is_complete(self) -> bool:
        """True if the arguments so far can be complete JSON."""
        return bool(self.arguments) and self.depth <= 0 and not self.is_in_string


class CallCollector:
    """Collects the calls of one answer."""

    def __init__(self, names: Sequence[str]) -> None:
        """Construct it; `names` are those of the tools that were offered."""
        self._names = names
        self._calls: list[_OpenCall] = []
        self._pieces = 0

    def feed(self, calls: object) -> None:
        """Take the calls of a piece, or of a whole answer: a list, or a single one."""
        self._pieces += 1
        for call in calls if isinstance(calls, Sequence) and not isinstance(calls, str) else [calls]:
            if isinstance(call, Mapping):
                self._feed(call)

    def end(self) -> list[ToolCall]:
        """Return the calls, in their order. The same call that came twice is one."""
        found = [
            ToolCall(
                whole_characters(call.call_id),
                known_name(whole_characters(call.name), self._names),
                plain_arguments(whole_characters("".join(call.arguments)), name=call.name),
                extra=call.extra,
            )
            for call in self._calls
            if call.name
        ]
        seen: set[tuple[str, str, str]] = set()
        return [call for call in found if not call.call_id or not _was_seen(call, seen)]

    def _feed(self, call: Mapping[str, Any]) -> None:
        function = call.get("function")
        inner: Mapping[str, Any] = function if isinstance(function, Mapping) else call
        name = inner.get("name") or (function if isinstance(function, str) else None)
        name = name if isinstance(name, str) else ""
        call_id = call.get("id")
        call_id = str(call_id) if call_id else ""
        arguments = _text_of(next((inner[key] for key in _ARGUMENTS if inner.get(key) is not None), None))
        index = call.get("index")
        index = str(index) if index is not None else None
        open_call = self._find(index, call_id=call_id, name=name)
        if open_call is None or self._begins_another(open_call, call_id=call_id, name=name, arguments=arguments):
            open_call = _OpenCall(index, call_id, self._pieces)
            self._calls.append(open_call)
        _extend(open_call, name=name, call_id=call_id, arguments=arguments)
        open_call.extra |= _extra(call)

    def _find(self, index: str | None, *, call_id: str, name: str) -> _OpenCall | None:
        """Return the call that a piece goes on with, by its id first: some servers give all calls the same index."""
        newest = self._calls[-1] if self._calls else None
        if call_id:
            same_id = [each for each in reversed(self._calls) if each.call_id == call_id]
            same_both = [each for each in same_id if index is None or each.index == index]
            if same_both or same_id:
                return same_both[0] if same_both else None if name else same_id[0]
        if index is None:
            return newest
        same_index = next((each for each in reversed(self._calls) if each.index == index), None)
        # A piece without a name, under a number that is new, is the rest of what is open.
        is_rest = same_index is None and not name and newest is not None and not newest.is_complete
        return newest if is_rest else same_index

    def _begins_another(self, before: _OpenCall, *, call_id: str, name: str, arguments: str) -> bool:
        """Decide whether a piece begins another call than the one with its id or index.

        A piece without a name never does: some servers make a new id for each piece.
        """
        if not name or not before.name:
            return False
        if before.piece == self._pieces:
            # Two names in one list.
            return True
        if before.is_complete:
            return bool(arguments.strip()) or (bool(call_id) and call_id != before.call_id) or name != before.name
        if name != before.name:
            return not self._continues_name(before, name)
        if not call_id or call_id == before.call_id:
            return False
        return not before.arguments or arguments.lstrip().startswith("{")

    def _continues_name(self, before: _OpenCall, name: str) -> bool:
        joined = before.name + name
        return not before.arguments and any(each.startswith(joined) for each in self._names)


def _extend(call: _OpenCall, *, name: str, call_id: str, arguments: str) -> None:
    call.call_id = call.call_id or call_id
    if not call.name:
        call.name = name
    elif name and name != call.name:
        call.name += name
    call.append(arguments)


def _was_seen(call: ToolCall, seen: set[tuple[str, str, str]]) -> bool:
    key = (call.call_id, call.name, call.arguments)
    if key in seen:
        return True
    seen.add(key)
    return False


def _text_of(arguments: object) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments, ensure_ascii=False)


def _extra(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return what belongs to the provider, such as the signature of a thought, and has to go back with the call."""
    function = call.get("function")
    kept = {key: value for key, value in call.items() if key not in _NOT_KEPT and value is not None}
    if isinstance(function, Mapping) and function.get("provider_specific_fields"):
        kept.setdefault("provider_specific_fields", function["provider_specific_fields"])
    return kept


def plain_arguments(written: str, *, name: str = "") -> str:
    """Return arguments as one object of JSON, if they can be read as one; as they were written if not.

    Models encode them twice, put them into fences or into the whole call, and write Python.
    """
    text = _NOTHING_YET.sub("", written.strip().removeprefix("\ufeff"))
    for _ in range(_MOST_ENCODINGS):
        if (fenced := _FENCED.fullmatch(text)) is not None:
            text = fenced["inside"].strip()
        value = _value_of(text)
        if isinstance(value, str):
            text = value.strip()
            continue
        if isinstance(value, list) and len(value) == 1:
            (value,) = value
            text = json.dumps(value, ensure_ascii=False)
        if not isinstance(value, Mapping):
            return written
        inside = _arguments_inside(value, name)
        if inside is not None:
            return json.dumps(inside, ensure_ascii=False)
        return text if _is_plain(text) else json.dumps(value, ensure_ascii=False)
    return written


def _value_of(text: str) -> Any:
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return literal_of(text) if text.startswith("{") else None
    return value if _CLOSING.fullmatch(text, end) is not None else None


def _arguments_inside(value: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return the arguments of a whole call that was written where its arguments belong."""
    if not name or value.get("name") != name or len(value) != 2:
        return None
    inside = next((value[key] for key in _ARGUMENTS if key in value), None)
    if isinstance(inside, str):
        inside = _value_of(inside)
    return inside if isinstance(inside, Mapping) else None


def _is_plain(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
