"""Reads the values that models write: JSON, or what Python writes in its place."""

import ast
import json
from collections.abc import Mapping
from typing import Any, Final

import regex

_LONGEST_LITERAL: Final = 20_000
_DECODER: Final = json.JSONDecoder(strict=False)


def decode_value(text: str, at: int) -> tuple[Any, int]:
    """Return the value of JSON, or of Python, at a position, and where it ends; None if there is none."""
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        pass
    end = _end_of(text, at)
    return literal_of(text[at:end]), end


def decode_call(text: str, at: int) -> tuple[Any, int]:
    """Return the arguments between the parentheses of a call of Python, and where it ends."""
    end = _end_of(text, at)
    try:
        call = ast.parse(f"f{text[at:end]}", mode="eval").body if end - at < _LONGEST_LITERAL else None
        if not isinstance(call, ast.Call):
            return None, end
        if len(call.args) == 1 and not call.keywords:
            value = ast.literal_eval(call.args[0])
            return (value, end) if isinstance(value, Mapping | str) else (None, end)
        return {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}, end
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        # `true` and `null` are no Python.
        inside = text[at + 1 : end - 1].strip()
        return (decode_value(inside, 0)[0], end) if inside.startswith("{") else (None, end)


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
