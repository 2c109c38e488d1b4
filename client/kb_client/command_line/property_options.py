"""Reads properties from options such as `--property team=aero`, and shows them."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from kb_client.command_line.output import shown

PropertyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME=VALUE",
        help="Property; a value that is a number, true or false is stored as such. May be repeated.",
    ),
]


def read_properties(named: Sequence[str] | None) -> dict[str, str | float | bool]:
    """Return properties by their names.

    Raises:
        BadParameter: one has no name or no value.
    """
    found = {}
    for each in named or ():
        name, separator, value = each.partition("=")
        if not name or not separator:
            raise typer.BadParameter(f"{each} should be NAME=VALUE, such as team=aero")
        found[name] = _read_value(value)
    return found


def _read_value(text: str) -> str | float | bool:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text


def describe_properties(properties: Mapping[str, object]) -> str:
    """Return properties on one line."""
    return ", ".join(f"{name}: {shown(value)}" for name, value in properties.items())
