"""Removes headers and footers: lines at the edges of pages that repeat on other pages."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

_EDGE_LINES: Final = 3
_MIN_PAGES: Final = 3
_MIN_SHARE: Final = 0.4
"""Share of the pages on which a line without a number repeats. Left and right pages can have different headers."""
_NUMBER: Final = re.compile(r"\d{1,6}")
_MAX_CHARACTERS: Final = 200

_LineKey: TypeAlias = tuple[str, str, int | None]
"""Text before and after the number of the page, and how far that number is from the position of the page."""


def without_running_lines(pages: Sequence[str]) -> list[str]:
    """Return the pages without headers and footers.

    A line with a number that counts the pages has to repeat on three pages only, since the headers of chapters differ.
    Of a line without such a number the first one stays: it can be the title.
    """
    split = [page.split("\n") for page in pages]
    counts = Counter(key for position, lines in enumerate(split) for key in set(_keys_of_edges(lines, position)))
    filled = sum(1 for page in pages if page.strip())
    running = {key for key, count in counts.items() if count >= _pages_needed(key, filled)}
    kept: set[_LineKey] = set()
    return [
        "\n".join(_drop_running(lines, position, running=running, kept=kept)) for position, lines in enumerate(split)
    ]


def _pages_needed(key: _LineKey, pages: int) -> float:
    return _MIN_PAGES if key[2] is not None else max(_MIN_PAGES, _MIN_SHARE * pages)


def _drop_running(lines: list[str], position: int, *, running: set[_LineKey], kept: set[_LineKey]) -> Iterator[str]:
    edges = set(_edges(lines))
    for at, line in enumerate(lines):
        found = running.intersection(_keys(line, position)) if at in edges else set()
        if not found:
            yield line
        elif all(number is None for _, _, number in found) and kept.isdisjoint(found):
            kept |= found
            yield line


def _keys_of_edges(lines: list[str], position: int) -> Iterator[_LineKey]:
    for at in _edges(lines):
        yield from _keys(lines[at], position)


def _edges(lines: list[str]) -> list[int]:
    """Return the positions of the first and the last lines that are not empty."""
    filled = [at for at, line in enumerate(lines) if line.strip()]
    return sorted({*filled[:_EDGE_LINES], *filled[-_EDGE_LINES:]})


def _keys(line: str, position: int) -> Iterator[_LineKey]:
    """Yield what makes a line equal to one of another page: the whole, or all but a number that counts the pages."""
    plain = " ".join(line.split())
    if not plain or len(plain) > _MAX_CHARACTERS:
        return
    yield plain, "", None
    for number in _NUMBER.finditer(plain):
        yield plain[: number.start()], plain[number.end() :], int(number[0]) - position
