"""Tables that fit a terminal: ids stay whole, the columns at the right give way first, and the reader is told so."""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kb_client.command_line.output import open_console, shown

if TYPE_CHECKING:
    from rich.text import Text

_GAP: Final = 2
_ENOUGH: Final = 12
"""Characters of a cell that tell it from others; a column gets these, or it is left out."""


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, whole: Collection[str] = ()) -> None:
    """Print rows, with the more important columns at the left.

    On a terminal long cells are shortened, and columns that find no room are left out and named below. The first one
    stays. Elsewhere nothing is shortened.

    Args:
        columns: names.
        rows: values; a `Text` of rich keeps its style.
        whole: columns that are never shortened or left out, as those of ids.
    """
    from rich.cells import cell_len
    from rich.text import Text

    cells = [[each if isinstance(each, Text) else Text(_one_line(each)) for each in row] for row in rows]
    natural = [
        max(cell_len(column), *(cell_len(row[at].plain) for row in cells), 0) for at, column in enumerate(columns)
    ]
    console = open_console()
    kept = {at for at, column in enumerate(columns) if at == 0 or column in whole}
    widths = dict(enumerate(natural))
    if console.is_terminal:
        widths = fit_columns(natural, {at for at in kept if columns[at] in whole}, width=console.width)
    numeric = {at for at in widths if cells and all(_is_number(row[at].plain) for row in cells)}
    for row in [[Text(each, style="bold") for each in columns], *cells]:
        line = Text()
        for at, width in widths.items():
            line.append_text(_padded(row[at], width, right=at in numeric))
            line.append(" " * _GAP)
        line.rstrip()
        # A line that ids make longer than the terminal is broken by it, and can be copied.
        console.print(line, soft_wrap=True)
    if hidden := [column for at, column in enumerate(columns) if at not in widths]:
        names = ", ".join(hidden)
        console.print(f"\nno room for: {names} (--json shows all)", style="dim")


def fit_columns(natural: Sequence[int], whole: Collection[int], *, width: int) -> dict[int, int]:
    """Return the widths of the columns that are shown, by their number.

    Columns at the right are left out until each one left has enough. What remains of the width goes to all that need
    more alike: one long name takes nothing from the others.

    Args:
        natural: width of each column, if there is room.
        whole: columns that have this width in any case; these and the first one are always shown.
        width: of the terminal.
    """
    widths = {at: each if at in whole else min(each, _ENOUGH) for at, each in enumerate(natural)}
    for at in reversed(range(1, len(natural))):
        if _total(widths) <= width:
            break
        if at not in whole:
            del widths[at]
    while _total(widths) < width and (short := [at for at, each in widths.items() if each < natural[at]]):
        share = max(1, (width - _total(widths)) // len(short))
        for at in short[: width - _total(widths)]:
            widths[at] = min(natural[at], widths[at] + share)
    return widths


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _padded(cell: "Text", width: int, *, right: bool) -> "Text":
    """Return a cell of exactly this width; wide characters count twice."""
    padded = cell.copy()
    padded.truncate(width, overflow="ellipsis")
    padded.align("right" if right else "left", width)
    return padded


def _one_line(value: object) -> str:
    # A line break or a tab in a name would spoil the columns.
    return " ".join(shown(value).split())


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "").isdigit()
