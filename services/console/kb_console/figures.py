"""Figures as people read them: numbers with thin spaces, durations and times in words."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

THIN_SPACE: Final = "\N{NARROW NO-BREAK SPACE}"
_LEAST_USD: Final = 0.0001
_UNITS: Final = (
    (1, "s"), (60, "min"), (3_600, "h"), (86_400, "days"), (86_400 * 365.25 / 12, "months"), (86_400 * 365.25, "years"),
)  # fmt: skip
"""Length in seconds and name of each unit, which is used below twice the next one."""


def number(value: float | None, digits: int = 0) -> str:
    """Return a number with thin spaces between thousands; nothing for None."""
    return "" if value is None else f"{value:,.{digits}f}".replace(",", THIN_SPACE)


def usd(value: float | None) -> str:
    """Return an amount in US dollars with as many digits as it needs."""
    if value is None:
        return "unknown"
    if 0 < value < _LEAST_USD:
        return f"less than ${_LEAST_USD}"
    return f"${number(value, 2 if value == 0 or value >= 1 else 4)}"


def percent(share: float | None) -> str:
    return "" if share is None else f"{share * 100:.0f}{THIN_SPACE}%"


def size(bytes_: float) -> str:
    """Return a number of bytes in the unit that fits."""
    units = ["bytes", "kB", "MB", "GB", "TB"]
    while bytes_ >= 1_000 and len(units) > 1:
        bytes_ /= 1_000
        del units[0]
    return f"{number(bytes_, 0 if units[0] == 'bytes' else 1)}{THIN_SPACE}{units[0]}"


def duration(seconds: float | None) -> str:
    """Return a duration in the unit that fits, such as `3 min`."""
    if seconds is None:
        return ""
    if seconds < 1:
        return "less than 1 s"
    length_s, unit = next(
        (one for one, (next_s, _) in pairwise(_UNITS) if seconds < 2 * next_s),
        _UNITS[-1],
    )
    return f"{seconds / length_s:.0f} {unit}"


def distance(at: datetime, now: datetime | None = None) -> str:
    """Return how far a time is away, such as `3 min ago` or `in 40 s`."""
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"


def utc(at: datetime) -> str:
    """Return a time to the minute, for readers whose browser does not translate it into their zone."""
    return f"{at.astimezone(UTC):%d %b %Y, %H:%M} UTC"


def exact_utc(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
