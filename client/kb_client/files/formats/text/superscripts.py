"""Raised, lowered and struck characters in plain text: a raised digit must not join the number before it."""

import re
from typing import Final

_LOWERED: Final = str.maketrans("0123456789+-\u2212=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ")
_DIGITS_OF_LOWERED: Final = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_SQUARED: Final = {"2": "²", "3": "³"}
_UNIT: Final = re.compile(r"(?:^|[^\w^]|\d)(?:[kcdmµμn]?m|s|ft|in|yd|mi)$")
_PLAIN: Final = frozenset({"st", "nd", "rd", "th", "er", "re", "ère", "ème", "ième", "nde", "os", "as"})
"""Ends of ordinal numbers: `1st` is the same word in any form."""
_SIGNS: Final = {"tm": "™", "sm": "℠"}
_ONE_TERM: Final = re.compile(r"[-+]?[\w.]+(?:,\w+)*|[-+]")
_FRACTION: Final = re.compile(r"(?<![\w^])(\d*)\^(\d+)[/\u2044\u2215]([₀-₉]+)")


def superscript(text: str, *, after: str = "") -> str:
    """Return a raised text as it is written in a line: `^6`, so that `10` with a raised `6` is `10^6`.

    Args:
        text: what is raised.
        after: text before it. The square of a unit is `m²`, which a search for `m2` finds.
    """
    raised = text.strip().replace("\u2212", "-")
    if not any(character.isalnum() for character in raised) and raised not in ("+", "-"):
        return text
    if raised.lower() in _SIGNS:
        return _SIGNS[raised.lower()]
    if raised.lower() in _PLAIN:
        return raised
    if raised in _SQUARED and _UNIT.search(after):
        return _SQUARED[raised]
    return _with_space_around(text, f"^{raised}" if _ONE_TERM.fullmatch(raised) else f"^({raised})")


def subscript(text: str) -> str:
    """Return a lowered text as it is written in a line: `₂` where Unicode has it, which searches find as 2, or `_x`."""
    lowered = text.strip()
    if not any(character.isalnum() for character in lowered):
        return text
    small = lowered.translate(_LOWERED)
    if all(before != after for before, after in zip(lowered, small, strict=True)):
        return _with_space_around(text, small)
    return _with_space_around(text, f"_{lowered}" if _ONE_TERM.fullmatch(lowered) else f"_({lowered})")


def struck(text: str) -> str:
    """Return a text that is crossed out as Markdown marks it, so that no one takes it for valid."""
    return _with_space_around(text, f"~~{text.strip()}~~") if text.strip() else text


def plain_fractions(text: str) -> str:
    """Return the text with fractions that were set with a raised and a lowered number as `1 1/2`."""

    def write(found: re.Match[str]) -> str:
        whole, above, below = found.groups()
        return f"{whole}{' ' if whole else ''}{above}/{below.translate(_DIGITS_OF_LOWERED)}"

    return _FRACTION.sub(write, text)


def _with_space_around(text: str, written: str) -> str:
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return before + written + after
