"""Rows of tables as lines that can be understood alone: a passage may hold any of them without the first row."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

from kb_client.files.formats.literal_lines import keep_literal

_ROWS_BEFORE_HEADER: Final = 5
_MAX_HEADER_CHARACTERS: Final = 80


def rows_to_lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Return a line for each row that is not empty.

    Below a header, a line is `Name: Ada; Born: 1815`. Without one, it is `Ada | 1815`.
    """
    return map(keep_literal, _lines(rows))


def _lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    filled = (row for row in (tuple(map(_one_line, row)) for row in rows) if any(row))
    first = list(islice(filled, _ROWS_BEFORE_HEADER))
    at = next((place for place, row in enumerate(first) if _is_header(row, first[place + 1 :])), None)
    if at is None:
        yield from map(_without_header, chain(first, filled))
        return
    yield from map(_without_header, first[:at])
    header = first[at]
    yield from (_with_header(header, row) for row in chain(first[at + 1 :], filled))


def _is_header(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Decide whether a row names columns: short, different, not numbers, and nothing is wider below."""
    names = [name for name in row if name]
    return (
        len(names) > 1
        and len(set(names)) == len(names)
        and all(len(name) <= _MAX_HEADER_CHARACTERS and not _is_number(name) for name in names)
        and bool(below)
        and all(not any(other[len(row) :]) and not _lacks_name(row, other) for other in below)
    )


def _lacks_name(header: Sequence[str], row: Sequence[str]) -> bool:
    return sum(1 for name, value in zip(header, row, strict=False) if value and not name) > 1


def _is_number(value: str) -> bool:
    return value.strip("+-%€$£ ").replace(".", "").replace(",", "").isdigit()


def _with_header(header: Sequence[str], row: Sequence[str]) -> str:
    names = [*header, *[""] * (len(row) - len(header))]
    pairs = zip(names, row, strict=False)
    return "; ".join(f"{name}: {value}" if name else value for name, value in pairs if value)


def _without_header(row: Sequence[str]) -> str:
    return " | ".join(value for value in row if value)


def _one_line(value: str) -> str:
    return " ".join(value.split())
