"""Removes headers and footers: lines at the edges of pages that repeat on other pages."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, TypeAlias

from kb_client.files.formats.pdf.lines import Line

_EDGE_LINES: Final = 3
_MIN_PAGES: Final = 3
_FEW_PAGES: Final = 2
_MIN_SHARE: Final = 0.4
"""Share of the pages on which a line without a number repeats. Left and right pages can have different headers."""
_NUMBER: Final = re.compile(r"\d{1,6}")
_CUT_WORD: Final = ("\x02", "\ufffe")
_NUMBER_AT_AN_END: Final = re.compile(r"^\d{1,6}(?!\S)|(?<!\S)\d{1,6}$|^[ivxlc]{1,9}$")
_BESIDE_NUMBER: Final = re.compile(
    r"\W{0,3}(?:page|p\.|seite|s\.|pagina|p\u00e1gina|strona|sida|side)?[ ]?\0"
    r"(?:[ ]?(?:/|of|von|de|sur)[ ]?\d{1,6})?\W{0,3}",
    re.IGNORECASE,
)
"""Texts beside the number of a page that are enough to know it on two pages, here with NUL for the number."""
_ROMAN: Final = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_MAX_CHARACTERS: Final = 200
_LARGE: Final = 1.25
"""Height of a line that is a title, and no number of a page, as a share of the usual height at least."""
_NEAR: Final = 1.7
"""Distance between two rows of a table at most, as a share of their height."""
_LEVEL: Final = 4
"""Points by which a line of the same kind stands higher or lower on other pages at most."""

_LineKey: TypeAlias = tuple[str, str, int | None]
"""Text before and after the number of the page, and how far that number is from the position of the page.

In place of the text, it can be where the line stands on the page, if the number is at its begin or end.
"""


def without_running_lines(pages: Sequence[Sequence[Line]]) -> list[list[Line]]:
    """Return the pages without headers and footers.

    A line with a number that counts the pages has to repeat on three pages only, since the headers of chapters differ.
    Of a line without such a number the first one stays, if nothing else says the same: it can be the title.
    """
    edges = [_edges(lines) for lines in pages]
    counts = Counter(
        key
        for position, (lines, at_edges) in enumerate(zip(pages, edges, strict=True))
        for key in {key for at in at_edges for key in _keys(lines[at], position)}
    )
    filled = sum(map(bool, pages))
    running = {key for key, count in counts.items() if count >= _pages_needed(key, filled)}
    usual = median([line.height for lines in pages for line in lines] or [0.0])
    kept = {
        key
        for lines, at_edges in zip(pages, edges, strict=True)
        for at, line in enumerate(lines)
        if at not in at_edges
        for key in _keys(line, 0)
        if key in running
    }
    return [
        list(_drop_running(lines, position, edges=edges[position], running=running, kept=kept, usual=usual))
        for position, lines in enumerate(pages)
    ]


def _pages_needed(key: _LineKey, pages: int) -> float:
    before, after, number = key
    if number is None:
        # The same at the same height is enough on two pages, since the first one stays.
        return max(_MIN_PAGES if pages > _FEW_PAGES or "\n" not in before else _FEW_PAGES, _MIN_SHARE * pages)
    is_plain = number == 1 and _BESIDE_NUMBER.fullmatch(f"{before}\0{after}")
    return min(_MIN_PAGES, pages) if is_plain and pages > 1 else _MIN_PAGES


def _drop_running(
    lines: Sequence[Line],
    position: int,
    *,
    edges: set[int],
    running: set[_LineKey],
    kept: set[_LineKey],
    usual: float,
) -> Iterator[Line]:
    rows = _rows_of_tables(lines)
    for at, line in enumerate(lines):
        found = running.intersection(_keys(line, position)) if at in edges else set()
        counts_pages = any(number is not None for _, _, number in found)
        if not found or (counts_pages and line.height > _LARGE * usual) or (at in rows and not counts_pages):
            yield line
        elif not counts_pages and kept.isdisjoint(found):
            kept |= found
            yield line


def _rows_of_tables(lines: Sequence[Line]) -> set[int]:
    """Return the positions of lines whose cells stand above or below those of another: headers of tables repeat."""
    return {
        at + side
        for at, (line, below) in enumerate(pairwise(lines))
        if line.cells and below.cells and 0 < line.base - below.base <= _NEAR * line.height
        for side in (0, 1)
    }


def _edges(lines: Sequence[Line]) -> set[int]:
    """Return the positions of the highest and the lowest lines. The rest of a word is no line of its own."""
    by_height = sorted(range(len(lines)), key=lambda at: lines[at].base)
    rests = {at + 1 for at, line in enumerate(lines) if line.text.endswith(_CUT_WORD)}
    return {*by_height[:_EDGE_LINES], *by_height[-_EDGE_LINES:]} - rests


def _keys(line: Line, position: int) -> Iterator[_LineKey]:
    """Yield what makes a line equal to one of another page: the whole, or all but a number that counts the pages."""
    plain = " ".join(line.text.split())
    if not plain or len(plain) > _MAX_CHARACTERS:
        return
    yield plain, "", None
    yield f"{plain}\n{round(line.base / _LEVEL)}", "", None
    for number in _NUMBER.finditer(plain):
        yield plain[: number.start()], plain[number.end() :], int(number[0]) - position
    for number in _NUMBER_AT_AN_END.finditer(plain):
        yield f"\n{round(line.base / _LEVEL)}", "", _value(number[0]) - position


def _value(number: str) -> int:
    """Return a number that is written in digits, or in small Roman letters as before the first chapter."""
    if number.isdecimal():
        return int(number)
    values = [_ROMAN[letter] for letter in number]
    return sum(-value if value < after else value for value, after in pairwise([*values, 0]))
