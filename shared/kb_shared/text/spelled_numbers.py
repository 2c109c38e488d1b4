"""Reads numbers as they are written in different countries. Pure."""

import re
from collections.abc import Iterator
from typing import Final

_NUMBER: Final = re.compile(r"(?<![\w.,])\d+(?:[.,'\u2019\u00a0\u202f ]\d{3}(?!\d)){0,6}(?:[.,]\d+)?(?![\w]|[.,]\d)")
_MARK: Final = re.compile("[.,]")
_SPACES: Final = re.compile("['\u2019\u00a0\u202f ]")


def spelled_numbers(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield where numbers with separators are, and what they are with a point before the decimals and nothing else.

    A number such as `1,234` can be both.
    """
    for found in _NUMBER.finditer(text):
        if terms := tuple(term for term in _readings(found[0]) if term != found[0]):
            yield found.start(), found.end(), terms


def _readings(written: str) -> Iterator[str]:
    compact = _SPACES.sub("", written)
    marks = _MARK.findall(compact)
    if not marks:
        if compact != written:
            yield compact
        return
    whole, _, decimals = compact.rpartition(marks[-1])
    if len(marks) > 1 and marks[-1] == marks[0]:
        yield _MARK.sub("", compact)
        return
    if len(marks) == 1 and len(decimals) == 3:
        yield whole + decimals
    yield f"{_MARK.sub('', whole)}.{decimals}"
