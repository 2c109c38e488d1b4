"""Says what is wrong with a date-time, for which there are many habits and one form."""

import re
from datetime import date
from typing import Final

_FORM: Final = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})(?:[Tt _](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?)?"
    r"(?P<rest>.*)",
    re.ASCII | re.DOTALL,
)
_OFFSET: Final = re.compile(r"[Zz]|[+-](?P<hours>\d{2}):?(?P<minutes>\d{2})", re.ASCII)
_HOURS: Final = re.compile(r"[+-]\d{2}", re.ASCII)
_ZONE_NAME: Final = re.compile(r" ?(?P<name>[A-Z]{2,5}|[A-Z][a-z]+(?:/[A-Za-z_]+)+)", re.ASCII)
_BRACKETS: Final = re.compile(r"(?:[Zz]|[+-]\d{2}:?\d{2})?\[[A-Za-z0-9_+/-]{1,40}\]", re.ASCII)
_WEEKDAY: Final = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? ", re.ASCII)
_LAST_SECOND: Final = 253_402_300_799
"""End of the year 9999, in seconds since 1970."""
_ADD_ZONE: Final = "add Z for UTC, or an offset such as +01:00"


def fault_of_time(value: object) -> str | None:
    """Say what is wrong with a value that stands for a date-time; None if nothing better than its form can be said."""
    match value:
        case bool():
            return None
        case int() | float():
            return _fault_of_number(value)
        case list() if value and all(isinstance(each, int) for each in value):
            return "write the parts as one text"
        case str():
            return _fault_of_text(value)
    return None


def _fault_of_number(value: float) -> str | None:
    seconds = abs(value)
    for unit, factor in (("microseconds", 10**6), ("nanoseconds", 10**9)):
        if seconds > _LAST_SECOND * 1_000 and 0 < seconds / factor <= _LAST_SECOND / 50:
            return f"it seems to count {unit} since 1970"
    return None


def _fault_of_text(text: str) -> str | None:
    if _WEEKDAY.match(text):
        return "it is written as e-mails write dates"
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    if not _is_day(found["date"]):
        return "there is no such day"
    if found["hour"] is None:
        return None if found["rest"] else f"the time of day and the zone are missing: {_ADD_ZONE}"
    return _fault_of_clock(found) or _fault_of_zone(found["rest"])


def _fault_of_clock(found: re.Match[str]) -> str | None:
    if found["second"] == "60":
        return "it has a leap second: write second 59"
    if int(found["hour"]) > 23 or int(found["minute"]) > 59 or int(found["second"] or 0) > 59:
        return "there is no such time of day"
    return None


def _fault_of_zone(rest: str) -> str | None:
    if not rest.strip():
        return f"the zone is missing: {_ADD_ZONE}"
    if _BRACKETS.fullmatch(rest):
        return "leave out the name of the zone in brackets, and keep the offset"
    if name := _ZONE_NAME.fullmatch(rest):
        is_utc = name["name"] in {"GMT", "UTC"}
        return f"a zone has no name: write {'Z' if is_utc else 'its offset such as +01:00'} instead of {name['name']}"
    if (offset := _OFFSET.fullmatch(rest)) is None:
        return f"write the minutes of the offset, too: {rest}:00" if _HOURS.fullmatch(rest) else None
    if int(offset["hours"] or 0) > 23 or int(offset["minutes"] or 0) > 59:
        return "there is no such offset"
    return "it is outside of the years 1 to 9999 in UTC"


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
