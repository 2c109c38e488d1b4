"""Prints tables, fields and JSON."""

import json
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_WIDTH_WITHOUT_TERMINAL: Final = 200
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Return a text of a document without characters that control the terminal."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def open_console(*, errors: bool = False) -> "Console":
    """Return a console of the width of the terminal; of a fixed one for a file or a pipe."""
    from rich.console import Console

    stream = sys.stderr if errors else sys.stdout
    width = None if stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, width=width, highlight=False, markup=False, soft_wrap=False)


def print_json(value: "BaseModel | Mapping[str, Any]") -> None:
    """Print an answer as the API has it."""
    from pydantic import BaseModel

    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    print(json.dumps(plain, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, whole: Collection[str] = ()) -> None:
    """Print rows; a cell that does not fit is shortened, unless its column is one of `whole`, as for ids."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    cells = [[shown(each) for each in row] for row in rows]
    for at, column in enumerate(columns):
        is_numeric = all(_is_number(row[at]) for row in cells)
        table.add_column(
            column,
            justify="right" if is_numeric and cells else "left",
            no_wrap=True,
            overflow="fold" if column in whole else "ellipsis",
            min_width=max((len(row[at]) for row in cells), default=0) if column in whole else None,
        )
    for row in cells:
        table.add_row(*(Text(each) for each in row))
    open_console().print(table)


def print_fields(fields: Mapping[str, object]) -> None:
    """Print names and values, one pair a line."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(Text(name), Text(shown(value)))
    open_console().print(table)


def print_more(shown_count: int, *, total_count: int) -> None:
    """Say that a list goes on."""
    if total_count > shown_count:
        print(f"\n{shown_count} of {total_count}; --limit shows more, and --limit 0 all")


def shown(value: object) -> str:
    """Return a value as people read it."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        case list() | tuple() | set() | frozenset():
            return ", ".join(shown(each) for each in value) or "-"
    return visible(str(value))


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "").isdigit()
