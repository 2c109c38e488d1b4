"""Shows values of Excel in their number formats: 0.075 in `0.0%` is 7.5 %, as who opens the file sees it.

Points and commas are written as in English, and a whole date as `2026-01-31`: Excel itself shows them as the settings
of each machine want it.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import takewhile
from typing import Final

from kb_client.files.formats.office.moment_formats import show_moment

_TOKEN: Final = re.compile(
    r"""
    "(?P<quoted>[^"]*)"? | \\(?P<escaped>.) | (?P<space>_.?) | \*.?
    | \[\$(?P<currency>[^\]-]*)(?:-[^\]]*)?\] | \[(?P<condition>[<>=]+)(?P<limit>-?[\d.]+)\] | \[(?P<color>[^\]]*)\]
    | (?P<general>general) | e(?P<exponent>[+-]) | (?P<digit>[0?#]) | (?P<fixed>[1-9]\d*) | (?P<mark>[.,%/@])
    | (?P<literal>.)
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_SECTION: Final = re.compile(r'(?:"[^"]*"?|\\.|_.|\*.|\[[^\]]*\]|[^;"])*?(?=;|\Z)', re.DOTALL)
_NEGATIVE_COLOR: Final = "red"
_CONDITIONS: Final = {
    "<": float.__lt__,
    "<=": float.__le__,
    ">": float.__gt__,
    ">=": float.__ge__,
    "=": float.__eq__,
    "<>": float.__ne__,
}
_SIGNIFICANT: Final = 15
"""Digits that Excel computes with: 0.1 + 0.2 must not become 0.30000000000000004."""
_DIGITS_OF_LARGEST: Final = 400
_GROUP: Final = 3
_LONGEST_CODE: Final = 500


@dataclass(frozen=True, slots=True)
class _NumberToken:
    kind: str
    text: str


_VALUE: Final = _NumberToken("mark", "@")
_POINT: Final = _NumberToken("mark", ".")
_COMMA: Final = _NumberToken("mark", ",")
_BAR: Final = _NumberToken("mark", "/")
_NUMERIC_SECTIONS: Final = 3
"""Formats of positive and negative numbers and of zero; the next one is that of texts."""


@dataclass(frozen=True, slots=True)
class _Section:
    """Format of the numbers of one sign, or of texts."""

    tokens: tuple[_NumberToken, ...]
    color: str = ""
    condition: str = ""
    limit: float = 0.0

    @property
    def is_of_text(self) -> bool:
        return _VALUE in self.tokens

    @property
    def signed(self) -> bool:
        """Return whether the format itself shows that a number is negative."""
        return any(token.kind == "literal" and token.text in "-(" for token in self.tokens)


def show_number(value: float, code: str | None) -> str:
    """Return a number as a cell with this format shows it."""
    if not math.isfinite(value):
        return str(value)
    with localcontext(prec=_DIGITS_OF_LARGEST):
        return _show_finite(value, code)


def _show_finite(value: float, code: str | None) -> str:
    sections = _sections(code or "General")
    section, absolute = _choose(sections, value)
    negative = value < 0 and (not absolute or (section.color == _NEGATIVE_COLOR and not section.signed))
    shown = _show(section.tokens, _exact(abs(value)))
    # What is rounded to nothing has no sign.
    return f"-{shown}" if negative and any(character in "123456789" for character in shown) else shown


def show_text(value: str, code: str | None) -> str:
    """Return a text as a cell with this format shows it."""
    sections = _sections(code or "@")
    texts = sections[_NUMERIC_SECTIONS:] or tuple(section for section in sections if section.is_of_text)
    if not texts:
        return value
    return "".join(value if token == _VALUE else token.text for token in texts[0].tokens).strip()


def show_value(value: object, code: str | None) -> str:
    """Return a value as a cell with this format shows it: a number, a date, a time, a duration or a text."""
    match value:
        case None:
            return ""
        case bool():
            return show_text(str(value).upper(), code)
        case int() | float():
            return show_number(value, code)
        case date() | time() | timedelta():
            return show_moment(value, code or "")
    return show_text(str(value), code)


@lru_cache(maxsize=1_000)
def _sections(code: str) -> tuple[_Section, ...]:
    """Split a format at the semicolons: positive, negative, zero, text."""
    code, sections = code[:_LONGEST_CODE], []
    at = 0
    while at <= len(code):
        found = _SECTION.match(code, at)
        end = found.end() if found else at
        sections.append(_parse(code[at:end]))
        at = end + 1
    return tuple(sections)


def _parse(section: str) -> _Section:
    tokens, color, condition, limit = [], "", "", 0.0
    for found in _TOKEN.finditer(section):
        kind, groups = found.lastgroup or "", found.groupdict()
        if groups["condition"]:
            condition, limit = groups["condition"], _number_or_zero(groups["limit"])
        elif kind == "color":
            color = color or groups["color"].lower()
        elif kind in ("quoted", "escaped", "currency", "literal"):
            tokens.append(_NumberToken("literal", groups[kind]))
        elif kind == "space":
            tokens.append(_NumberToken("literal", " "))
        elif kind:
            tokens.append(_NumberToken(kind, groups[kind]))
    return _Section(tuple(tokens), color, condition, limit)


def _number_or_zero(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _choose(sections: Sequence[_Section], value: float) -> tuple[_Section, bool]:
    """Return the format of a number, and whether it is written without a sign, which the format shows."""
    numeric = [each for each in sections[:_NUMERIC_SECTIONS] if not each.is_of_text]
    if not numeric:
        numeric = [_Section((_NumberToken("general", ""),))]
    if any(each.condition for each in numeric):
        for each in numeric:
            test = _CONDITIONS.get(each.condition)
            if test is None or test(float(value), each.limit):
                return each, len(numeric) > 1 and each.condition in ("<", "<=") and each.limit <= 0
        return numeric[-1], False
    if value < 0 and len(numeric) > 1:
        return numeric[1], True
    if value == 0 and len(numeric) == _NUMERIC_SECTIONS:
        return numeric[2], True
    return numeric[0], len(numeric) > 1


def _exact(value: float) -> Decimal:
    return Decimal(value) if isinstance(value, int) else Decimal(f"{value:.{_SIGNIFICANT}g}")


def _show(tokens: Sequence[_NumberToken], value: Decimal) -> str:
    if not any(token.kind in ("digit", "general") for token in tokens):
        return "".join(token.text for token in tokens if token.kind == "literal" or token.text == "%").strip()
    value *= 100 ** sum(1 for token in tokens if token.text == "%" and token.kind == "mark")
    if any(token.kind == "general" for token in tokens):
        return "".join(_general(value) if token.kind == "general" else token.text for token in tokens).strip()
    parts = _NumberParts.from_tokens(tokens)
    value /= 1000**parts.thousands
    if parts.exponent:
        shown = _scientific(parts, value)
    elif parts.slash is not None:
        shown = _fraction(parts, value)
    else:
        shown = _decimal(parts.before, parts.after, value, grouped=parts.grouped)
    return " ".join(f"{parts.prefix}{shown}{parts.suffix}".split())


def _general(value: Decimal) -> str:
    return (
        f"{value.normalize():f}"
        if value == value.to_integral_value() or abs(value) >= Decimal("1e-9")
        else f"{value:g}"
    )


@dataclass(slots=True)
class _NumberParts:
    """Placeholders of a number, with what stands before, among and after them."""

    prefix: str = ""
    before: list[_NumberToken] = field(default_factory=list)
    """Placeholders before the point, with the texts among them."""
    after: list[_NumberToken] = field(default_factory=list)
    suffix: str = ""
    grouped: bool = False
    thousands: int = 0
    """Number of commas after the last placeholder, each of which divides by 1,000."""
    exponent: str = ""
    exponent_digits: int = 0
    slash: int | None = None
    """Place of the bar of a fraction among those before the point."""

    @classmethod
    def from_tokens(cls, tokens: Sequence[_NumberToken]) -> "_NumberParts":
        places = [at for at, token in enumerate(tokens) if token.kind in ("digit", "fixed")]
        first, last = places[0], places[-1]
        if first and tokens[first - 1] == _POINT:
            first -= 1
        parts = cls(prefix=_literals(tokens[:first]), suffix=_literals(tokens[last + 1 :]))
        number, exponent = _split(tokens[first : last + 1], lambda token: token.kind == "exponent")
        if exponent:
            parts.exponent, parts.exponent_digits = exponent[0].text, len(exponent) - 1
        before, after = _split(number, lambda token: token == _POINT)
        parts.after = [token for token in after[1:] if token != _COMMA]
        parts.before = [token for token in before if token != _COMMA]
        # A comma between placeholders groups the digits; those after the last one divide.
        before_point = sum(1 for _ in takewhile(_COMMA.__eq__, reversed(before)))
        parts.thousands = before_point + sum(1 for _ in takewhile(_COMMA.__eq__, tokens[last + 1 :]))
        parts.grouped = before.count(_COMMA) > before_point
        parts.slash = parts.before.index(_BAR) if _BAR in parts.before else None
        return parts


def _split(
    tokens: Sequence[_NumberToken], is_end: Callable[[_NumberToken], bool]
) -> tuple[Sequence[_NumberToken], Sequence[_NumberToken]]:
    """Return the tokens before the first one that is an end, and those from there."""
    at = next((at for at, token in enumerate(tokens) if is_end(token)), len(tokens))
    return tokens[:at], tokens[at:]


def _literals(tokens: Sequence[_NumberToken]) -> str:
    return "".join(token.text for token in tokens if token.kind == "literal" or token.text in ("%", "/"))


def _decimal(before: Sequence[_NumberToken], after: Sequence[_NumberToken], value: Decimal, *, grouped: bool) -> str:
    places = sum(1 for token in after if token.kind == "digit")
    rounded = value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    whole, _, part = f"{rounded:f}".partition(".")
    shown = _whole(before, whole.lstrip("0"), grouped=grouped)
    needed = max((at for at, token in enumerate(_digits(after), 1) if token.text == "0"), default=0)
    kept = part.rstrip("0").ljust(needed, "0")
    written = _in_places(after, kept)
    return f"{shown}.{written}" if kept else shown + written


def _digits(tokens: Sequence[_NumberToken]) -> list[_NumberToken]:
    return [token for token in tokens if token.kind == "digit"]


def _in_places(tokens: Sequence[_NumberToken], digits: str) -> str:
    """Write digits into the placeholders after the point; texts among them stay."""
    left = iter(digits)
    return "".join(next(left, "") if token.kind == "digit" else token.text for token in tokens)


def _whole(tokens: Sequence[_NumberToken], digits: str, *, grouped: bool) -> str:
    """Write digits into the placeholders before the point, from the right; the first place takes what is left."""
    places = [at for at, token in enumerate(tokens) if token.kind == "digit"]
    shown = [token.text if token.kind in ("literal", "fixed") else "" for token in tokens]
    if not places:
        return digits + "".join(shown)
    padded = digits
    needed = max((count for count, at in enumerate(reversed(places), 1) if tokens[at].text == "0"), default=0)
    padded = padded.rjust(needed, "0")
    if grouped:
        return _grouped(padded) + "".join(shown)
    for at in reversed(places[1:]):
        shown[at], padded = padded[-1:], padded[:-1]
    shown[places[0]] = padded
    return "".join(shown)


def _grouped(digits: str) -> str:
    head = len(digits) % _GROUP
    return ",".join(
        filter(None, [digits[:head], *(digits[at : at + _GROUP] for at in range(head, len(digits), _GROUP))])
    )


def _scientific(parts: _NumberParts, value: Decimal) -> str:
    period = max(1, len(_digits(parts.before)))
    exponent = value.adjusted() if value else 0
    exponent -= exponent % period
    places = len(_digits(parts.after))
    mantissa = value.scaleb(-exponent).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    if mantissa >= 10**period:
        exponent += period
        mantissa = value.scaleb(-exponent)
    sign = "-" if exponent < 0 else parts.exponent.replace("-", "")
    shown = _decimal(parts.before, parts.after, mantissa, grouped=False)
    return f"{shown}E{sign}{str(abs(exponent)).rjust(parts.exponent_digits, '0')}"


def _fraction(parts: _NumberParts, value: Decimal) -> str:
    """Write a number as `2 1/4`: with the denominator of the format, or the best one with as many digits."""
    slash = parts.slash or 0
    below = parts.before[slash + 1 :]
    fixed = "".join(token.text for token in below if token.kind == "fixed")
    digits = max(1, len(_digits(below)))
    whole_wanted = any(token.kind == "literal" for token in parts.before[:slash])
    exact = Fraction(value)
    whole = int(exact) if whole_wanted else 0
    rest = exact - whole
    if fixed and not any(token.kind == "digit" for token in below):
        bottom = int(fixed)
        top = int(rest * bottom + Fraction(1, 2))
    else:
        near = rest.limit_denominator(10**digits - 1)
        top, bottom = near.numerator, near.denominator
    if whole_wanted and top == bottom:
        whole, top = whole + 1, 0
    if not top:
        return str(whole)
    return f"{whole} {top}/{bottom}" if whole else f"{top}/{bottom}"
