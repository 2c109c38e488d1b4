"""Decides what an error may repeat of a value: nothing of what can be a text, a name, a message or a secret."""

import json
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from kb_contracts.reasons.schema_nodes import Node

MAX_SHOWN_CHARACTERS: Final = 40
_NUMBER_OR_TIME: Final = re.compile(r"[+-]?\.?\d[\w+\-.,:/% \[\]]{0,63}", re.ASCII)
_WORD: Final = re.compile(r"[+-]?(?:nan|inf|infinity|null|none|nil|undefined|true|false|yes|no|on|off)", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_$.-]{1,64}")


def plain(name: str) -> str:
    """Return a name that the sender chose, or "?" if it may be any text."""
    return name if _PLAIN.fullmatch(name) else "?"


def is_plain(name: object) -> bool:
    return isinstance(name, str) and _PLAIN.fullmatch(name) is not None


def shown(value: object, node: Node) -> str:
    """Return the beginning of `value` as JSON if it may be repeated where `node` is wanted; else its kind and size."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return cut(_digits(value)) if _takes_scalars(node) else "a number"
        case str() if node.may_be_shown() and _looks_like(value, node):
            return _quoted(value)
    return size_of(value)


def size_of(value: object) -> str:
    """Return the kind of a value in the words of JSON, and its size."""
    match value:
        case str():
            return f"a text of {_count(len(value), 'character')}" if value else "an empty text"
        case bytes() | bytearray():
            return f"{len(value):,} bytes"
        case Mapping():
            return f"an object of {_count(len(value), 'field')}" if value else "an empty object"
        case list() | tuple() | AbstractSet():
            return f"a list of {_count(len(value), 'item')}" if value else "an empty list"
    return "a value of another kind"


def _takes_scalars(node: Node) -> bool:
    """Return whether a number is no secret here. One in the place of a free text may be, such as a PIN."""
    if node.is_union:
        return any(_takes_scalars(each) for each in node.choices())
    return node.may_be_shown() or node.type in {"list", "dict", "model-fields"}


def _looks_like(text: str, node: Node) -> bool:
    # A text in the wrong field must not appear because that field wants a number.
    if node.type == "str":
        return True
    if node.type in {"literal", "enum"} or node.is_union:
        return len(text) <= MAX_SHOWN_CHARACTERS and text.isprintable()
    return _NUMBER_OR_TIME.fullmatch(text) is not None or _WORD.fullmatch(text) is not None


def _quoted(text: str) -> str:
    written = _escaped(json.dumps(text[:MAX_SHOWN_CHARACTERS], ensure_ascii=False)[1:-1])
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return f'"{written}"'
    return f'"{written}…" ({len(text):,} characters)'


def _escaped(text: str) -> str:
    # Half of a surrogate pair can't be encoded, and a reader does not see what is invisible.
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)


def _digits(number: float) -> str:
    try:
        return json.dumps(number)
    except ValueError:
        return "a number of more than 4,300 digits"


def cut(text: str) -> str:
    """Return the beginning of a text that may be shown."""
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
