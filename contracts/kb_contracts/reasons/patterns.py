"""Says in words which texts a pattern allows. A reader of an error knows characters, not regular expressions."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_CLASS: Final = re.compile(r"\[(?P<characters>[^\[\]^][^\[\]]*)\](?:\{(?:(?P<least>\d+),)?(?P<most>\d+)\})?")
_LIST: Final = re.compile(r"\^(?P<one>.+?)\((?:\?:)?,(?P=one)\)(?:\*|\{0,(?P<more>\d+)\})\$")
_CHOICE: Final = re.compile(r"\((?:\?:)?(?P<names>[\w.\\]+(?:\|[\w.\\]+)+)\)")
_RANGE: Final = re.compile(r"\w-\w|.")
_CONTROL_NAMES: Final = {"\x00": "NUL", "\t": "a tab", "\n": "a line break", "\r": "a carriage return", " ": "a space"}


@dataclass(frozen=True, slots=True)
class Form:
    """Form that a pattern allows."""

    words: str
    """Words that complete "must"."""
    allowed: str = ""
    """Class of regular expressions of the characters that may stand anywhere in it; empty: it depends on the place."""
    is_code: bool = False
    """True of identifiers and other short codes, which an error may repeat."""


_CONTROL_FREE: Final = r"[^\x00-\x1f\x7f]"
_NODE: Final = "of A-Z a-z 0-9 . _ @ + : - , such as user:alice"
_FORMS: Final[Mapping[str, Form]] = {
    r"^[^\x00-\x1f\x7f]*$": Form("be one line without control characters", _CONTROL_FREE),
    r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$": Form(
        "be one line with at least one visible character and without control characters", _CONTROL_FREE
    ),
    r"\S": Form("have at least one visible character"),
    r"^[^\x00]*$": Form("have no NUL character", r"[^\x00]"),
    r"^[^\x00-\x1f\x7f/\\]+$": Form(
        "be the name of a file, without a folder and without control characters", r"[^\x00-\x1f\x7f/\\]"
    ),
    r"^[\x21-\x7e]+$": Form("have only visible ASCII characters, without spaces", r"[\x21-\x7e]"),
    r"^[\x20-\x7e]+$": Form("have only ASCII characters, in one line", r"[\x20-\x7e]"),
    r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$": Form(
        "be the name of a header: letters, digits and !#$%&'*+.^_`|~-", r"[A-Za-z0-9!#$%&'*+.^_`|~-]"
    ),
    r"^[^\s{}\x00-\x1f\x7f]([^{}\x00-\x1f\x7f]*[^\s{}\x00-\x1f\x7f])?$": Form(
        "have no braces, no control characters, and no spaces at its ends", r"[^{}\x00-\x1f\x7f]"
    ),
    r"^[^\s.$\x00-\x1f\x7f][^.\x00-\x1f\x7f]*$": Form(
        "have no dots and no control characters, and no $ or space at its start", r"[^.\x00-\x1f\x7f]"
    ),
    r"^\$(\.[A-Za-z_][A-Za-z0-9_]*|\[\d{1,4}\])*$": Form("be a path such as $.user.id or $.items[0]"),
    r"^[A-Za-z_][A-Za-z0-9_]{0,39}$": Form(
        "be 1 to 40 of A-Z a-z 0-9 _ , and not begin with a digit", "[A-Za-z0-9_]", is_code=True
    ),
    r"^[A-Za-z0-9_-]{1,40}:[A-Za-z0-9._@+:-]{1,160}$": Form(
        "have the form type:name, such as user:alice, without spaces", "[A-Za-z0-9._@+:-]"
    ),
    r"^(global|[A-Za-z0-9_-]{1,40}:[A-Za-z0-9._@+:-]{1,160})$": Form(
        "have the form type:name, such as user:alice, without spaces", "[A-Za-z0-9._@+:-]"
    ),
    r"^[A-Za-z0-9._@+:-]{1,200}$": Form(f"be 1 to 200 {_NODE}", "[A-Za-z0-9._@+:-]"),
    r"^[A-Za-z0-9_.:-]{1,64}$": Form("be 1 to 64 of A-Z a-z 0-9 _ . : - , such as WORKS_WITH", "[A-Za-z0-9_.:-]"),
    r"^(\d{4}-\d{2}-\d{2})?$": Form("be a date such as 2026-01-31", is_code=True),
    r"^[A-Za-z0-9._-]{1,128}:[0-9]{1,16}$": Form("be a document id, a colon and a revision", is_code=True),
}
_UNKNOWN: Final = Form("have the form that the reference describes")


def form_of(pattern: str) -> Form:
    """Return what `pattern` allows."""
    if pattern in _FORMS:
        return _FORMS[pattern]
    if characters := _CLASS.fullmatch(pattern, 1, len(pattern) - 1):
        return Form(f"be {_of_class(characters)}", f"[{characters['characters']}]", is_code=True)
    if listed := _LIST.fullmatch(pattern):
        return _list_form(listed)
    return _UNKNOWN


def first_forbidden(text: str, allowed: str) -> str | None:
    """Say which character of `text` is the first that may not stand in it: where it is, and what."""
    beginning = re.compile(f"{allowed}*").match(text)
    at = beginning.end() if beginning else 0
    return f"character {at + 1} is {_name_of_character(text[at])}" if at < len(text) else None


def _of_class(found: re.Match[str]) -> str:
    characters = " ".join(_RANGE.findall(found["characters"].replace("\\", "")))
    least, most = found["least"], found["most"]
    number = f"{least} to {most} of " if least else f"{most} of " if most else "of "
    return f"{number}{characters}"


def _list_form(found: re.Match[str]) -> Form:
    one = found["one"]
    number = f"1 to {int(found['more']) + 1}" if found["more"] else "one or more"
    if characters := _CLASS.fullmatch(one):
        return Form(f"be {number} with commas between, each {_of_class(characters)}", is_code=True)
    if names := _CHOICE.fullmatch(one):
        choices = names["names"].replace("\\", "").split("|")
        return Form(f"be {number} of {', '.join(choices)}, with commas between", is_code=True)
    return _UNKNOWN


def _name_of_character(character: str) -> str:
    if character in _CONTROL_NAMES:
        return _CONTROL_NAMES[character]
    code = f"U+{ord(character):04X}"
    is_visible = character.isprintable() and not unicodedata.combining(character)
    return f"{character} ({code})" if is_visible and not character.isascii() else character if is_visible else code
