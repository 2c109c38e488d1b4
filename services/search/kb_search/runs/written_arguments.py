"""Reads the object that a model has written as the arguments of a call: JSON, or what can mean one object only. Pure.

A fence around it, JSON in a text, a comma too much, line breaks that are not escaped, what says nothing behind its end,
and the notation of Python are taken.
"""

import ast
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from kb_contracts import strict_json

MAX_ARGUMENTS_CHARACTERS: Final = 20_000
_FENCE: Final = re.compile(r"\s*```[a-z]*\s*(?P<inner>.*?)\s*```\s*", re.IGNORECASE | re.DOTALL)
_TRAILING_COMMA: Final = re.compile(r",(?=\s*[}\]])")
_SAYS_NOTHING: Final = re.compile(r"(?:\s|[\]}]|</?[\w:|/-]{1,40}>|<\|[^|<>]{1,40}\|>)*")
"""Brackets and tags behind an object that is complete."""
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")


class UnusableCall(Exception):
    """A call that can't be made; its text tells the model why."""


def parse_arguments(written: str, *, text_is: str) -> Mapping[str, Any]:
    """Return the object that the arguments of a call are written as; a text alone is the argument `text_is`.

    Raises:
        UnusableCall: They are neither.
    """
    if len(written) > MAX_ARGUMENTS_CHARACTERS:
        raise UnusableCall(f"The arguments have more than {MAX_ARGUMENTS_CHARACTERS} characters.")
    text = written.strip()
    if (fenced := _FENCE.fullmatch(text)) is not None:
        text = fenced["inner"]
    parsed = parse_json(text) if text else {}
    if isinstance(parsed, str):
        is_encoded_twice = parsed.lstrip().startswith(("{", "[", "```"))
        parsed = parse_json(parsed) if is_encoded_twice else {text_is: parsed}
    if isinstance(parsed, list) and len(parsed) == 1:
        parsed = parsed[0]
    if not isinstance(parsed, dict):
        raise UnusableCall('The arguments must be a JSON object, such as {"query": "..."}.')
    return parsed


def parse_json(text: str) -> Any:
    """Return what a text means as JSON. Raises UnusableCall."""
    try:
        return strict_json.parse(text.encode(errors="surrogatepass"))
    except ValueError as error:
        problem = UnusableCall(f"The arguments are not JSON: {error}.")
    try:
        json.loads(text)
    except ValueError:
        # Neither JSON nor ambiguous JSON: perhaps JSON with a comma too much, or as Python writes it.
        for attempt in (_parse_without_trailing_commas, _parse_beginning, _parse_with_line_breaks, ast.literal_eval):
            try:
                value = attempt(text)
            except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                continue
            return _as_json(value, problem)
    except RecursionError:
        pass
    raise problem


def _parse_without_trailing_commas(text: str) -> Any:
    return strict_json.parse(_TRAILING_COMMA.sub("", text).encode(errors="surrogatepass"))


def _parse_beginning(text: str) -> Any:
    """Return the first object, if what follows it says nothing, or is the same object."""
    _, end = json.JSONDecoder().raw_decode(text)
    first, rest = text[:end], text[end:].strip()
    if not (_SAYS_NOTHING.fullmatch(rest) or rest == first):
        raise ValueError
    return strict_json.parse(first.encode(errors="surrogatepass"))


def _parse_with_line_breaks(text: str) -> Any:
    """Return what JSON means in which line breaks and tabs are not escaped."""
    escaped = _TEXT.sub(lambda found: _CONTROL.sub(lambda each: json.dumps(each[0])[1:-1], found[0]), text)
    return strict_json.parse(escaped.encode(errors="surrogatepass"))


def _as_json(value: Any, problem: UnusableCall) -> Any:
    """Return what Python has read as JSON would give it. Raises `problem` if there is no such JSON."""
    try:
        return strict_json.parse(json.dumps(value, allow_nan=False).encode())
    except (ValueError, TypeError, RecursionError):
        raise problem from None
