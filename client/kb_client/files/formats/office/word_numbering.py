"""Automatic numbers of paragraphs in Word files, such as `2.1` or `b)`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lxml.etree import _Element

WORD: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_VALUE: Final = f"{WORD}val"
_PLACE: Final = re.compile(r"%([1-9])")
_ROMAN: Final = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc")),
    *((50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
_MOST_ROMAN: Final = 4_999
_LETTERS: Final = 26
_TEENS: Final = range(11, 14)


@dataclass(frozen=True, slots=True)
class ListLevel:
    start: int = 1
    number_format: str = "decimal"
    text: str = "%1."
    restart: int | None = None
    """Number of the levels above it after which it begins again; None: all."""
    legal: bool = False
    """All numbers in it are decimal."""

    @property
    def is_bullet(self) -> bool:
        return self.number_format == "bullet"


@dataclass(frozen=True, slots=True)
class Label:
    text: str
    """Number of the paragraph; empty for a bullet."""
    level: int


@dataclass(slots=True)
class _List:
    """A list, or several that count together."""

    levels: dict[int, ListLevel]
    style_levels: dict[str, int]
    """Levels by the style whose paragraphs they number."""
    counts: dict[int, int] = field(default_factory=dict)


class Numbering:
    def __init__(self, root: "_Element | None", style_numbers: Mapping[str, str]) -> None:
        """Read the definitions of lists.

        Args:
            root: `w:numbering`; None if the file has none.
            style_numbers: `numId` of each style that numbers its paragraphs.
        """
        self._lists: dict[str, _List] = {}
        self._links: dict[str, str] = {}
        self._nums: dict[str, tuple[str, dict[int, ListLevel], dict[int, int]]] = {}
        self._begun: set[tuple[str, int]] = set()
        self._style_numbers = style_numbers
        for element in () if root is None else root.iter(f"{WORD}abstractNum", f"{WORD}num"):
            if element.tag == f"{WORD}num":
                self._add_num(element)
            else:
                self._add_list(element)

    def level_of_style(self, num_id: str, style: str) -> int | None:
        found = self._find(num_id)
        return None if found is None else found[1].style_levels.get(style)

    def next_label(self, num_id: str, level: int) -> Label | None:
        """Count a paragraph and return its number; None if it has none."""
        found = self._find(num_id)
        if found is None:
            return None
        own_levels, shared, starts = found
        levels = {**shared.levels, **own_levels}
        if level not in levels:
            return None
        self._count(num_id, level, shared=shared, levels=levels, starts=starts)
        definition = levels[level]
        if definition.is_bullet:
            return Label("", level)

        def number(place: re.Match[str]) -> str:
            at = int(place[1]) - 1
            of = levels.get(at)
            if of is None or of.is_bullet:
                return ""
            return format_number(shared.counts.get(at, of.start), "decimal" if definition.legal else of.number_format)

        text = _PLACE.sub(number, definition.text).strip()
        return Label(text, level) if text else None

    def _find(self, num_id: str) -> tuple[dict[int, ListLevel], _List, dict[int, int]] | None:
        if num_id not in self._nums:
            return None
        list_id, levels, starts = self._nums[num_id]
        linked = self._nums.get(self._style_numbers.get(self._links.get(list_id, ""), ""))
        if linked is not None:
            list_id = linked[0]
        return (levels, self._lists[list_id], starts) if list_id in self._lists else None

    def _count(
        self, num_id: str, level: int, *, shared: _List, levels: Mapping[int, ListLevel], starts: Mapping[int, int]
    ) -> None:
        counts = shared.counts
        for above in range(level):
            if above in levels:
                counts.setdefault(above, levels[above].start)
        if level in starts and (num_id, level) not in self._begun:
            counts[level] = starts[level] - 1
        self._begun.add((num_id, level))
        counts[level] = counts.get(level, levels[level].start - 1) + 1
        for below in [each for each in counts if each > level]:
            restart = levels[below].restart if below in levels else None
            if restart is None or level < restart:
                del counts[below]

    def _add_list(self, element: "_Element") -> None:
        list_id = element.get(f"{WORD}abstractNumId", "")
        shared = _List({}, {})
        for each in element.iterfind(f"{WORD}lvl"):
            at = _integer(each.get(f"{WORD}ilvl"))
            shared.levels[at] = _level(each)
            if style := _value(each, "pStyle"):
                shared.style_levels[style] = at
        self._lists[list_id] = shared
        if style := _value(element, "numStyleLink"):
            self._links[list_id] = style

    def _add_num(self, element: "_Element") -> None:
        levels: dict[int, ListLevel] = {}
        starts: dict[int, int] = {}
        list_id = _value(element, "abstractNumId") or ""
        for override in element.iterfind(f"{WORD}lvlOverride"):
            at = _integer(override.get(f"{WORD}ilvl"))
            if (own := override.find(f"{WORD}lvl")) is not None:
                levels[at] = _level(own)
            if (start := _value(override, "startOverride")) is not None:
                starts[at] = _integer(start)
        self._nums[element.get(f"{WORD}numId", "")] = (list_id, levels, starts)


def _level(element: "_Element") -> ListLevel:
    restart = _value(element, "lvlRestart")
    level = ListLevel(
        number_format=_value(element, "numFmt") or "decimal",
        text=_value(element, "lvlText") or "",
        restart=None if restart is None else _integer(restart),
        legal=element.find(f"{WORD}isLgl") is not None,
    )
    start = _value(element, "start")
    return level if start is None else replace(level, start=_integer(start))


def _value(element: "_Element", name: str) -> str | None:
    found = element.find(f"{WORD}{name}")
    return None if found is None else found.get(_VALUE)


def _integer(text: str | None) -> int:
    return int(text) if text and text.lstrip("-").isdigit() else 0


def format_number(number: int, number_format: str) -> str:
    """Return a number as `w:numFmt` writes it; in digits where it is written in words or in another script."""
    written = _FORMATS.get(number_format, str)(number)
    return written.upper() if number_format.startswith("upper") else written


def _letters(number: int) -> str:
    """Return `a` to `z`, then `aa` to `zz`."""
    return chr(ord("a") + (number - 1) % _LETTERS) * ((number - 1) // _LETTERS + 1) if number > 0 else str(number)


def _roman(number: int) -> str:
    if not 0 < number <= _MOST_ROMAN:
        return str(number)
    roman = ""
    for value, digits in _ROMAN:
        count, number = divmod(number, value)
        roman += digits * count
    return roman


def _ordinal(number: int) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in _TEENS else ends.get(number % 10, 'th')}"


_FORMATS: Final[Mapping[str, Callable[[int], str]]] = {
    "none": lambda _: "",
    "decimalZero": lambda number: f"{number:02}",
    "lowerLetter": _letters,
    "upperLetter": _letters,
    "lowerRoman": _roman,
    "upperRoman": _roman,
    "ordinal": _ordinal,
    "numberInDash": lambda number: f"- {number} -",
}
