"""Reads what a mail program shows of an invitation: what, when and where."""

import re
from collections.abc import Iterator
from typing import Final

_FOLDED: Final = re.compile(r"\r?\n[ \t]")
_LINE: Final = re.compile(r'(?P<name>[A-Za-z-]+)(?P<parameters>(?:;[^:;="]+=(?:"[^"]*"|[^:;"]*))*):(?P<value>.*)')
_TIME: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")
_ZONE: Final = re.compile(r'TZID="?([^":;]+)', re.IGNORECASE)
_NAME: Final = re.compile(r'CN=(?:"([^"]*)"|([^:;]*))', re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\\([nN,;\\])")
_LABELS: Final = {
    "SUMMARY": "What",
    "DTSTART": "Begin",
    "DTEND": "End",
    "RRULE": "Repeats",
    "LOCATION": "Where",
    "ORGANIZER": "Organizer",
    "STATUS": "Status",
    "DESCRIPTION": "Description",
}


def describe_events(calendar: str) -> str:
    """Return the events of a text in the format iCalendar, a line for each fact, and an empty line between events."""
    events: list[list[str]] = []
    inside: list[str] = []
    for line in _FOLDED.sub("", calendar).splitlines():
        command = line.strip().upper()
        if command.startswith("BEGIN:"):
            inside.append(command[len("BEGIN:") :])
            if inside[-1] in ("VEVENT", "VTODO"):
                events.append([])
        elif command.startswith("END:"):
            inside = inside[:-1]
        elif inside and inside[-1] in ("VEVENT", "VTODO"):
            events[-1] += _describe(line)
    return "\n\n".join("\n".join(lines) for lines in events if lines)


def _describe(line: str) -> Iterator[str]:
    found = _LINE.fullmatch(line)
    label = _LABELS.get(found["name"].upper()) if found else None
    if not found or label is None or not found["value"].strip():
        return
    parameters = found["parameters"]
    value = _ESCAPE.sub(lambda escape: "\n" if escape[1] in "nN" else escape[1], found["value"]).strip()
    if label in ("Begin", "End"):
        value = _read_time(value, parameters)
    elif label == "Organizer" and (name := _NAME.search(parameters)):
        value = f"{name[1] or name[2]} <{value.removeprefix('mailto:').removeprefix('MAILTO:')}>"
    yield f"{label}: {value}"


def _read_time(value: str, parameters: str) -> str:
    found = _TIME.fullmatch(value)
    if not found:
        return value
    year, month, day, hour, minute, utc = found.groups()
    zone = _ZONE.search(parameters)
    suffix = " UTC" if utc else f" ({zone[1]})" if zone else ""
    return f"{year}-{month}-{day}" + (f" {hour}:{minute}{suffix}" if hour else "")
