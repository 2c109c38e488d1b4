"""Makes the tables of a page plain: each row has all its cells, and tables that only arrange other things are none."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

_ARRANGED: Final = "table, h1, h2, h3, h4, main, article, section, form"
_PARTS: Final = ["table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption", "colgroup"]
_MAX_SPAN: Final = 1_000
_MAX_ADDED: Final = 20_000
"""Number of cells that a page may get by those that span several: a few bytes can ask for a million."""


def make_tables_plain(soup: "BeautifulSoup") -> None:
    """Turn tables for layout into blocks, and repeat cells that span several rows or columns in each of them."""
    left = _MAX_ADDED
    # Inner tables first, since what is around them is layout.
    for table in reversed(soup.find_all("table")):
        if _is_layout(table):
            _unwrap(table)
        else:
            left -= _repeat_spanned(table, soup, most=left)


def _is_layout(table: "Tag") -> bool:
    if table.get("role") in ("presentation", "none"):
        return True
    if table.select_one("th, caption") is None and table.select_one(_ARRANGED) is not None:
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
    rows = _rows(table)
    width = max((sum(_span(cell, "colspan") for cell in _cells(row)) for row in rows), default=0)
    added = 0
    below: dict[int, tuple[int, Tag]] = {}
    for row in rows:
        column = 0
        for cell in [*_cells(row), None]:
            while column in below and added < most:
                rest, spanned = below.pop(column)
                copy = _copy(spanned, soup)
                row.append(copy) if cell is None else cell.insert_before(copy)
                added += 1
                if rest > 1:
                    below[column] = (rest - 1, spanned)
                column += 1
            if cell is None:
                break
            columns, height = _span(cell, "colspan"), _span(cell, "rowspan")
            del cell["colspan"], cell["rowspan"]
            repeated = range(1, columns) if columns < width and added + columns < most else ()
            if columns >= width > 1:
                cell["colspan"] = str(columns)
            for offset in range(columns):
                if height > 1:
                    below[column + offset] = (height - 1, cell)
            for _ in repeated:
                cell.insert_after(_copy(cell, soup))
                added += 1
            column += columns
    return added


def _span(cell: "Tag", name: str) -> int:
    value = str(cell.get(name) or "1").strip()
    return min(max(int(value), 1), _MAX_SPAN) if value.isdecimal() else 1


def _copy(cell: "Tag", soup: "BeautifulSoup") -> "Tag":
    copy = soup.new_tag(cell.name)
    copy.string = " ".join(cell.get_text(" ").split())
    return copy
