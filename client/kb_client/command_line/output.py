"""Prints answers: as tables and fields for people, and as JSON and rows of text for programs."""

import csv
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kb_client.command_line.output_format import OutputFormat

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

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


def print_answer(
    answer: "BaseModel | Mapping[str, Any]",
    output: OutputFormat,
    *,
    show: Callable[[], None],
    rows: str | None = None,
    id_field: str | None = None,
) -> None:
    """Print an answer in the format that was asked for.

    Args:
        answer: as the API has it.
        output: format.
        show: prints the answer for people.
        rows: field with the items of a list; by default, the answer itself is the only row.
        id_field: field of a row that is its id; needed by commands with the format `ids`.
    """
    if output == "table":
        show()
        return
    plain = _plain(answer)
    if output == "json":
        print_json(plain)
        return
    items = [plain] if rows is None else plain[rows]
    if output == "ids":
        assert id_field is not None, "a command without ids does not offer this format"
        for each in items:
            if each[id_field] is not None:
                print(each[id_field])
    else:
        _print_rows(items, output)
    if (total := plain.get("total_count", 0)) > len(items):
        print(_describe_more(len(items), total_count=total), file=sys.stderr)


def print_json(value: "BaseModel | Mapping[str, Any]") -> None:
    """Print an answer as the API has it."""
    print(json.dumps(_plain(value), indent=2, ensure_ascii=False))


def print_json_line(value: "BaseModel | Mapping[str, Any]") -> None:
    """Print an answer on one line, at once, for a program that reads answers as they come."""
    print(json.dumps(_plain(value), ensure_ascii=False), flush=True)


def _plain(value: "BaseModel | Mapping[str, Any]") -> Mapping[str, Any]:
    from pydantic import BaseModel

    return value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else value


def _print_rows(rows: Sequence[Mapping[str, Any]], output: OutputFormat) -> None:
    """Print a line with the names of the fields, and one for each row."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns] if columns else []
    lines += [[_cell(row.get(name), one_line=output == "tsv") for name in columns] for row in rows]
    if output == "csv":
        csv.writer(sys.stdout, lineterminator="\n").writerows(lines)
        return
    for line in lines:
        print("\t".join(line))


def _cell(value: object, *, one_line: bool) -> str:
    """Return a value as text: as JSON has it, but a list of plain values as words."""
    match value:
        case None:
            return ""
        case str():
            text = visible(value)
            # Programs that split lines at tabs, such as `cut`, know no quotation marks.
            return " ".join(text.split()) if one_line else text
        case list() if not any(isinstance(each, list | dict) for each in value):
            return " ".join(_cell(each, one_line=one_line) for each in value)
    return json.dumps(value, ensure_ascii=False)


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
        print(f"\n{_describe_more(shown_count, total_count=total_count)}")


def _describe_more(shown_count: int, *, total_count: int) -> str:
    return f"{shown_count:,} of {total_count:,}; --limit shows more, and --limit 0 all"


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
