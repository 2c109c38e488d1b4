"""Shows dates, times and durations of Excel as far as their formats do."""

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Final

_TOKEN: Final = re.compile(
    r"""
    general | "(?P<quoted>[^"]*)"? | \\(?P<escaped>.) | _.? | \*.? | \[(?P<elapsed>h+|m+|s+)\] | \[[^\]]*\]
    | (?P<half>am/pm|a/p) | (?P<parts>\.0+) | (?P<unit>y+|e+|m+|d+|h+|s+) | (?P<end>;) | (?P<literal>.)
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHORT: Final = 3
_DAY_OF_WEEK: Final = 3
_WHOLE_DATE: Final = frozenset("ymd")
_NOON: Final = 12
_BEFORE_ALL_DATES: Final = "1900-01-00"

_MomentToken = tuple[str, str]


def show_moment(value: date | time | timedelta, code: str) -> str:
    """Return a date, a time or a duration as a cell with this format shows it; a whole date as `2026-01-31`."""
    tokens = _tokens(code)
    kinds = {kind for kind, _ in tokens}
    if isinstance(value, timedelta):
        return _duration(value, tokens)
    clock = value.time() if isinstance(value, datetime) else value if isinstance(value, time) else time()
    if not kinds & {"y", "m", "d", "weekday", "h", "minute", "s"}:
        return _without_format(value)
    shown_time, shown_date = _time(clock, tokens), ""
    if kinds & {"y", "m", "d", "weekday"}:
        shown_date = _date(value, tokens) if isinstance(value, date) else _BEFORE_ALL_DATES
        if clock == time() and kinds >= _WHOLE_DATE:
            # Programs give dates a format with a time.
            shown_time = ""
        if shown_time[1:2] == ":" and "half" not in kinds:
            shown_time = f"0{shown_time}"
    before, after = _texts_around(tokens)
    return " ".join(filter(None, (before, shown_date, shown_time, after)))


def _without_format(value: date | time) -> str:
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    return value.isoformat()


def _tokens(code: str) -> list[_MomentToken]:
    """Return units and texts of the first section of a format. Beside hours or seconds, `m` is the minute."""
    tokens: list[_MomentToken] = []
    for found in _TOKEN.finditer(code):
        kind = found.lastgroup
        text = found[kind] if kind else ""
        if kind == "end":
            break
        if kind == "unit":
            unit = "y" if text[0] in "eE" else text[0].lower()
            tokens.append(("weekday" if unit == "d" and len(text) >= _DAY_OF_WEEK else unit, text))
        elif kind in ("elapsed", "half", "parts"):
            tokens.append((kind, text))
        elif kind:
            tokens.append(("text", text))
    units = [at for at, (kind, _) in enumerate(tokens) if kind not in ("text", "half", "parts")]
    for place, at in enumerate(units):
        if tokens[at][0] == "m" and (
            (place and tokens[units[place - 1]][0] in ("h", "elapsed"))
            or (place + 1 < len(units) and tokens[units[place + 1]][0] == "s")
        ):
            tokens[at] = ("minute", tokens[at][1])
    return tokens


def _texts_around(tokens: Sequence[_MomentToken]) -> tuple[str, str]:
    """Return the words of a format before and after the date."""
    places = [at for at, (kind, _) in enumerate(tokens) if kind != "text"]
    words = ("".join(text for _, text in part) for part in (tokens[: places[0]], tokens[places[-1] + 1 :]))
    before, after = (text.strip() if re.search(r"[^\W\d_]{2}", text) else "" for text in words)
    return before, after


def _date(value: date, tokens: Sequence[_MomentToken]) -> str:
    lengths = {kind: len(text) for kind, text in tokens}
    weekday = _name(_DAYS[value.weekday()], lengths.get("weekday", 0))
    shown = _WHOLE_DATE & lengths.keys()
    if shown == _WHOLE_DATE:
        calendar = value.isoformat()[: len("2026-01-31")]
    elif shown == {"y", "m"} and lengths["m"] < _SHORT:
        calendar = f"{value.year:04}-{value.month:02}"
    else:
        month = _name(_MONTHS[value.month - 1], max(_SHORT, lengths.get("m", 0)))
        parts = {"d": str(value.day), "m": month, "y": f"{value.year:04}"}
        calendar = " ".join(text for part, text in parts.items() if part in shown)
    return " ".join(filter(None, (weekday, calendar)))


def _name(name: str, letters: int) -> str:
    """Return the name of a month or a day: the whole for four letters, its first letters for three."""
    return "" if not letters else name[:_SHORT] if letters == _SHORT else name


def _time(clock: time, tokens: Sequence[_MomentToken]) -> str:
    half = any(kind == "half" for kind, _ in tokens)
    hour = (clock.hour % _NOON or _NOON) if half else clock.hour
    values = {"h": hour, "minute": clock.minute, "s": clock.second}
    parts = [f"{values[kind]:0{2 if kind != 'h' else min(len(text), 2)}}" for kind, text in tokens if kind in values]
    fraction = _fraction(clock.microsecond, tokens)
    if not parts:
        return ""
    return ":".join(parts) + fraction + ((" PM" if clock.hour >= _NOON else " AM") if half else "")


def _fraction(microseconds: int, tokens: Sequence[_MomentToken]) -> str:
    places = next((len(text) - 1 for kind, text in tokens if kind == "parts"), 0)
    return f".{f'{microseconds:06}'[:places]}" if places else ""


def _duration(value: timedelta, tokens: Sequence[_MomentToken]) -> str:
    """Write a duration in the units of the format, the first of which takes all that is above it: `36:00`."""
    sign, value = ("-", -value) if value < timedelta() else ("", value)
    whole = int(value.total_seconds())
    # What is not shown is cut off, except for the seconds, which Excel rounds.
    if not any(kind == "parts" for kind, _ in tokens):
        whole = round(value.total_seconds())
    total = {"h": whole // 3600, "m": whole // 60, "s": whole}
    within = {"h": whole // 3600 % 24, "minute": whole // 60 % 60, "m": whole // 60 % 60, "s": whole % 60}
    parts = []
    for kind, text in tokens:
        if kind == "elapsed":
            parts.append(str(total[text[0].lower()]).rjust(len(text), "0"))
        elif kind in within:
            parts.append(f"{within[kind]:02}")
    texts = [text for kind, text in tokens if kind == "text" and re.search(r"[^\W\d_]", text)]
    shown = sign + ":".join(parts) + _fraction(value.microseconds, tokens)
    return " ".join([shown, *map(str.strip, texts)]) if parts else str(value)
