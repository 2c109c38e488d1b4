"""Makes the tables of a page plain: each row has all its cells, and tables that only arrange other things are none."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_ARRANGED: Final = ["table", "pre", "h1", "h2", "h3", "h4", "main", "article", "section", "form"]
_PARTS: Final = ["table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption", "colgroup"]
_MAX_SPAN: Final = 1_000
_MAX_ADDED: Final = 20_000
"""Number of cells that a page may get by those that span several: a few bytes can ask for a million."""


def make_tables_plain(soup: "BeautifulSoup") -> None:
    """Turn tables for layout into blocks, and repeat cells that span several rows or columns in each of them."""
    left = _MAX_ADDED
    for cell in soup.find_all("td"):
        if _has_line_numbers(cell):
            cell.decompose()
    # Inner tables first, since what is around them is layout.
    for table in reversed(soup.find_all("table")):
        if _is_layout(table):
            _unwrap(table)
        else:
            left -= _repeat_spanned(table, soup, most=left)
            _join_head(table)


def _has_line_numbers(cell: "Tag") -> bool:
    """Return whether a cell only counts the lines of the program in the next one."""
    numbers = cell.get_text().split() if cell.find("pre") is not None and cell.find_next_sibling("td") else []
    return bool(numbers) and all(map(str.isdecimal, numbers))


def _join_head(table: "Tag") -> None:
    """Make one row of a head that has several: each column is named by all that stands above it."""
    head = table.find("thead")
    rows = [_cells(row) for row in head.find_all("tr", recursive=False)] if head is not None else []
    if len(rows) < 2 or len({len(row) for row in rows}) != 1:  # Markdown has one row of names
        return
    for column in zip(*rows, strict=True):
        column[0].string = " ".join(dict.fromkeys(" ".join(cell.get_text(" ").split()) for cell in column))
    for row in rows[1:]:
        row[0].parent.decompose()


def _is_layout(table: "Tag") -> bool:
    if table.get("role") in ("presentation", "none"):
        return True
    if table.find(_ARRANGED) is not None and table.find(["th", "caption"]) is None:
        return True
    return table.find("table") is not None or not any(len(_cells(row)) > 1 for row in _rows(table))


def _unwrap(table: "Tag") -> None:
    parts = [each for each in table.find_all(_PARTS) if each.find_parent("table") is table]
    for part in [table, *parts]:
        part.name = "div"


def _rows(table: "Tag") -> "list[Tag]":
    return [row for row in table.find_all("tr") if row.find_parent("table") is table]


def _cells(row: "Tag") -> "list[Tag]":
    return list(row.find_all(["td", "th"], recursive=False))


def _repeat_spanned(table: "Tag", soup: "BeautifulSoup", *, most: int) -> int:
    """Fill the rows of a table, and return the number of cells that were added."""
    if table.find(_spans) is None:
        return 0
    rows = _rows(table)
    width = max((sum(_span(cell, "colspan") for cell in _cells(row)) for row in rows), default=0)
    left = most
    below: dict[int, tuple[int, Tag]] = {}
    for row in rows:
        column = 0
        for cell in _cells(row):
            for above in _from_above(below, column)[:left]:
                cell.insert_before(_copy(above, soup))
                left -= 1
                column += 1
            columns, height = _span(cell, "colspan"), _span(cell, "rowspan")
            if columns < width:
                del cell["colspan"]
                for _ in range(1, min(columns, left + 1)):
                    cell.insert_after(_copy(cell, soup))
                    left -= 1
            if height > 1:
                below |= dict.fromkeys(range(column, column + columns), (height - 1, cell))
            column += columns
        for above in _from_above(below, column)[:left]:
            row.append(_copy(above, soup))
            left -= 1
    return most - left


def _from_above(below: "dict[int, tuple[int, Tag]]", column: int) -> "list[Tag]":
    """Take the cells of rows above that reach into a row, from a column on to the first that is free."""
    cells = []
    while column in below:
        rest, cell = below.pop(column)
        cells.append(cell)
        if rest > 1:
            below[column] = (rest - 1, cell)
        column += 1
    return cells


def _spans(element: "Tag") -> bool:
    return not {"rowspan", "colspan"}.isdisjoint(element.attrs)


def _span(cell: "Tag", name: str) -> int:
    value = str(cell.get(name) or "1").strip()
    return min(max(int(value), 1), _MAX_SPAN) if value.isdecimal() else 1


def _copy(cell: "Tag", soup: "BeautifulSoup") -> "Tag":
    copy = soup.new_tag(cell.name)
    copy.string = " ".join(cell.get_text(" ").split())
    return copy
