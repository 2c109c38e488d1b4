"""Properties as people write them: a name and a value in each line."""

import json
from collections.abc import Mapping
from typing import Any

from kb_console.errors import UnusableForm


def format_properties(properties: Mapping[str, Any]) -> str:
    """Return properties as lines, from which `parse_properties` makes the same values again."""
    return "\n".join(f"{name}: {_format(value)}" for name, value in properties.items())


def parse_properties(text: str, *, field: str = "properties") -> dict[str, Any]:
    """Return the properties in lines. A value is a number, a boolean or a date if it is written as in JSON, else text.

    Raises:
        UnusableForm: a line has no name, or a name comes twice.
    """
    properties: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise UnusableForm({field: f"Line {number} should have the form name: value"})
        if name.strip() in properties:
            raise UnusableForm({field: f"Line {number} has a name that an earlier line has"})
        properties[name.strip()] = _parse(value.strip())
    return properties


def _format(value: object) -> str:
    if not isinstance(value, str):
        return value.model_dump_json(by_alias=True) if hasattr(value, "model_dump_json") else json.dumps(value)
    # Quoted where it would be read as something else, as a number or a text of several lines.
    is_itself = _parse(value) == value and value == value.strip() and len(value.splitlines()) == 1
    return value if is_itself else json.dumps(value, ensure_ascii=False)


def _parse(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_one = isinstance(value, (str, bool, int, float)) or (isinstance(value, dict) and set(value) == {"$date"})
    return value if is_one else text
