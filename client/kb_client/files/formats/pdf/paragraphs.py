"""Joins the lines of pages to paragraphs where a line ends only because the next word has no room in it."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from kb_client.files.formats.pdf.lines import Line

_LEADER: Final = re.compile(r"[ ]?(?:[.\u00b7\u2026_\u2024][ ]?){4,}")
_LEAST_DOTS: Final = 4
_OTHER_LEADERS: Final = frozenset("\u00b7\u2026_\u2024")
_MARK_OF_ITEM: Final = re.compile(
    r"(?:[\u2022\u2023\u25aa\u25ab\u25cf\u25cb\u25e6\u25a0\u25a1\u25b6\u25ba\u2013\u2014*+\u00b7\u2043\u2219\uf0b7-]"
    r"|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]|\d{1,3}(?:\.\d{1,3})+\.?|\[\d{1,3}\])[ ]"
)
_NUMBER_OF_ITEM: Final = re.compile(r"\(?\d{1,3}[.)][ ]")
_END_OF_SENTENCE: Final = re.compile(r"[.!?:;\u2026\u3002\uff01\uff1f][\"')\]\u201d\u2019\u00bb]*$")
_HYPHEN: Final = re.compile(r"(?<=[^\W_])[-\u2010\u00ad\x02\ufffe]$")
_MARKS_OF_PDFIUM: Final = ("\x02", "\ufffe")
_OPENING: Final = "([\"'\u201c\u2018\u201e\u00ab"
_NO_SPACE_AFTER: Final = re.compile(r"(?<=\S)[/\u2014]$")
_WIDE: Final = re.compile(r"[\u2e80-\ud7ff\uf900-\ufaff\uff00-\uff60]")
_FROM_THE_RIGHT: Final = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_SHORTEST_LINE: Final = 20
_SHORTEST_LINE_OF_WIDE: Final = 10
"""Characters of a line that is continued at least: shorter ones are entries of lists and tables."""
_SAME_HEIGHT: Final = 1.18
_SPACE: Final = 0.2
_SAME_EDGE: Final = 0.6
_FARTHEST_INDENT: Final = 6.0
_NEARLY_FULL: Final = 2.0
"""Shares of the height of letters."""
_SAME_STEP: Final = 1.22
"""Distance between lines of a paragraph at most, as a share of the usual one."""
_MOST_STEP: Final = 1.75
"""Distance between lines, as a share of their height, where no usual one is known."""
_LEAST_SUPPORT: Final = 3
"""Lines that end at the right edge of a column at least."""
_LEAST_FULL: Final = 0.7
_LEAST_SMALL: Final = 0.3
_LEAST_LINES: Final = 4
"""Lines at least, and shares of lines that are full or begin small, of a block that is narrower than its page."""


@dataclass(slots=True)
class _JoinedLines:
    """A paragraph, or a line of its own."""

    text: str
    is_joined: bool = False
    lines: list[Line] = field(default_factory=list)


def join_paragraphs(pages: Sequence[Sequence[Line]]) -> tuple[list[str], set[int]]:
    """Return the text of each page, and the positions of pages whose last paragraph goes on on the next one."""
    pages = [_without_spread(lines) for lines in pages]
    layout = _TextLayout.from_pages(pages)
    edges = [layout.right_edges(lines) for lines in pages]
    texts = ["".join(_write(list(_units(lines, layout, rights)))) for lines, rights in zip(pages, edges, strict=True)]
    continued = {
        at
        for at, (lines, after) in enumerate(pairwise(pages))
        if lines and after and layout.goes_on(lines[-1], after[0], edges[at][-1])
    }
    return texts, continued


def _without_spread(lines: Sequence[Line]) -> list[Line]:
    """Return the lines; gaps of those that fill a column, since its text is justified, part no cells."""
    rights = Counter(round(line.right) for line in lines if not line.is_spread)
    return [
        replace(line, cells=())
        if line.is_spread and max(rights[round(line.right) + step] for step in (-1, 0, 1)) >= _LEAST_SUPPORT
        else line
        for line in lines
    ]


def _write(units: Sequence[_JoinedLines]) -> Iterator[str]:
    for unit, after in pairwise([*units, None]):
        if unit is not None:
            yield (_LEADER.sub(" ", unit.text) if _has_leader(unit.text) else unit.text).rstrip()
        if unit is not None and after is not None:
            yield "\n\n" if unit.is_joined or after.is_joined else "\n"


def _units(lines: Sequence[Line], layout: "_TextLayout", rights: "Sequence[_Edge]") -> Iterator[_JoinedLines]:
    items = _items(lines)
    unit: _JoinedLines | None = None
    for at, line in enumerate(lines):
        if unit is not None and layout.joins(unit.lines, line, edge=rights[at - 1], is_item=at in items):
            _append(unit, line)
            continue
        if unit is not None:
            yield _ended(unit)
        unit = _JoinedLines(line.text, lines=[line])
    if unit is not None:
        yield _ended(unit)


def _ended(unit: _JoinedLines) -> _JoinedLines:
    if unit.text.endswith(_MARKS_OF_PDFIUM):
        unit.text = f"{unit.text[:-1]}-"
    return unit


def _append(unit: _JoinedLines, line: Line) -> None:
    if _HYPHEN.search(unit.text) and line.text[:1].isalnum():
        unit.text = f"{unit.text[:-1]}\x02{line.text}"
    else:
        tight = _NO_SPACE_AFTER.search(unit.text) or (_WIDE.match(unit.text[-1:]) and _WIDE.match(line.text))
        unit.text += line.text if tight else f" {line.text}"
        unit.is_joined = True
    unit.lines.append(line)


def _items(lines: Sequence[Line]) -> set[int]:
    """Return the positions of lines that begin an entry of a list: a year that begins a line is none."""
    marked = {at: found[0] for at, line in enumerate(lines) if (found := _MARK_OF_ITEM.match(line.text))}
    numbers = {int(re_digits) for mark in marked.values() if (re_digits := mark.strip("().[] ")).isdecimal()}
    return {
        at
        for at, mark in marked.items()
        if not _NUMBER_OF_ITEM.match(mark) or {int(mark.strip("(). ")) + step for step in (-1, 1)} & numbers
    }


@dataclass(frozen=True, slots=True)
class _Edge:
    """Right edge of the column of a line, and whether enough lines end there."""

    right: float
    is_sure: bool


@dataclass(frozen=True, slots=True)
class _TextLayout:
    """Distances and edges that the lines of a document have in common."""

    step: float
    """Usual distance between two lines, as a share of their height."""
    edges: dict[int, float]
    """Right edges, by the left ones in points."""
    height: float

    @classmethod
    def from_pages(cls, pages: Sequence[Sequence[Line]]) -> "_TextLayout":
        steps: Counter[float] = Counter()
        heights: Counter[float] = Counter()
        rights: dict[int, list[float]] = {}
        for lines in pages:
            for line, below in pairwise(lines):
                if line.base > below.base and line.height and abs(line.left - below.left) < line.height:
                    steps[round((line.base - below.base) / line.height, 1)] += len(line.text) >= _SHORTEST_LINE
            for line in lines:
                heights[round(line.height, 1)] += len(line.text)
                if _is_text(line):
                    rights.setdefault(round(line.left), []).append(line.right)
        usual = max(steps.items(), key=lambda each: each[1], default=(0.0, 0))
        height = max(heights.items(), key=lambda each: each[1], default=(0.0, 0))[0]
        edges = {left: edge for left, found in rights.items() if (edge := _supported(found, _NEARLY_FULL * height))}
        return cls(min(usual[0], _MOST_STEP * 2) if usual[1] >= _LEAST_SUPPORT else 0.0, edges, height)

    def right_edges(self, lines: Sequence[Line]) -> list[_Edge]:
        """Return the right edge of the column of each line."""
        edges: list[_Edge] = []
        of_text = [line for line in lines if _is_text(line)]
        for block in self._blocks(lines):
            edge = self._edge_of(block, of_text)
            edges += [edge] * len(block)
        return edges

    def _blocks(self, lines: Sequence[Line]) -> Iterator[list[Line]]:
        block: list[Line] = []
        for line in lines:
            if block and not self._is_below(block[-1], line):
                yield block
                block = []
            block.append(line)
        if block:
            yield block

    def _edge_of(self, block: Sequence[Line], of_text: Sequence[Line]) -> _Edge:
        left, right = min(line.left for line in block), max(line.right for line in block)
        height = block[0].height
        beside = [line.right for line in of_text if line.left < right and line.right > left]
        of_page = _supported(beside, _NEARLY_FULL * height)
        if of_page is None:
            of_page = self.edges.get(round(left))
        if of_page is not None and right > of_page - _NEARLY_FULL * height:
            return _Edge(max(right, of_page) if right < of_page + height else right, is_sure=True)
        if _is_narrow_text(block, right):
            return _Edge(right, is_sure=True)
        return _Edge(of_page, is_sure=True) if of_page is not None else _Edge(right, is_sure=False)

    def _is_below(self, line: Line, below: Line) -> bool:
        step = line.base - below.base
        most = _SAME_STEP * self.step if self.step else _MOST_STEP
        heights = sorted((line.height, below.height))
        is_same = heights[1] <= _SAME_HEIGHT * heights[0] or (
            line.is_code != below.is_code and heights[1] < 1.4 * heights[0]
        )
        return is_same and 0 < step <= most * heights[1] and line.left < below.right and below.left < line.right

    def joins(self, lines: Sequence[Line], line: Line, *, edge: _Edge, is_item: bool) -> bool:
        """Return whether a line goes on with what the lines before it say.

        Args:
            lines: of the paragraph.
            line: that follows.
            edge: right edge of the column.
            is_item: whether the line begins an entry of a list.
        """
        before = lines[-1]
        if line.base > before.base and line.left > before.right:
            return self.goes_on(before, line, edge)
        if is_item or not self._is_below(before, line) or not _may_go_on(before, line, edge) or _is_row(line, before):
            return False
        step = lines[-2].base - before.base if len(lines) > 1 else 0.0
        if step > 0 and before.base - line.base > _SAME_STEP * step:
            return False
        if before.text.endswith(_MARKS_OF_PDFIUM) and line.text[:1].islower():
            return True
        if not _is_aligned(lines, line) or not _is_full(before, line, edge.right):
            return False
        return edge.is_sure or line.text[:1].islower() or bool(_HYPHEN.search(before.text))

    def goes_on(self, last: Line, first: Line, edge: _Edge) -> bool:
        """Return whether the first line of a page or a column goes on with what the last one of that before says."""
        heights = sorted((last.height, first.height))
        if not _is_text(last) or _is_row(first, last) or heights[1] > _SAME_HEIGHT * heights[0]:
            return False
        if _END_OF_SENTENCE.search(last.text) or _MARK_OF_ITEM.match(first.text):
            return False
        return first.text.lstrip(_OPENING)[:1].islower() and _is_full(last, first, edge.right)


def _supported(rights: list[float], near: float) -> float | None:
    """Return the farthest right edge near which several lines end."""
    ordered = sorted(rights, reverse=True)
    least = max(_LEAST_SUPPORT, len(ordered) // 20)
    found = (ordered[at] for at in range(len(ordered) - least + 1) if ordered[at] - ordered[at + least - 1] <= near)
    return next(found, None)


def _has_leader(text: str) -> bool:
    # The pattern alone would take a third of the time of all this.
    return (text.count(".") >= _LEAST_DOTS or not _OTHER_LEADERS.isdisjoint(text)) and bool(_LEADER.search(text))


def _is_text(line: Line) -> bool:
    shortest = _SHORTEST_LINE_OF_WIDE if _WIDE.search(line.text) else _SHORTEST_LINE
    return not line.is_code and len(line.text) >= shortest and len(line.cells) < 2 and not _has_leader(line.text)


def _may_go_on(before: Line, line: Line, edge: _Edge) -> bool:
    is_short = len(before.text) >= _SHORTEST_LINE // 2 and edge.is_sure and line.text[:1].islower()
    return _is_text(before) or (is_short and not before.is_code) or bool(_HYPHEN.search(before.text))


def _is_row(line: Line, before: Line) -> bool:
    """Return whether a line is one of a table, of code or of a list of contents."""
    is_row = bool(line.cells) and not _MARK_OF_ITEM.match(line.text)
    is_hanging = bool(before.cells) and not any(
        abs(line.left - cell) < _SAME_EDGE * line.height for cell in before.cells[:1]
    )
    return is_row or line.is_code or (is_hanging and not _MARK_OF_ITEM.match(before.text)) or _has_leader(line.text)


def _is_narrow_text(block: Sequence[Line], right: float) -> bool:
    """Return whether a block that is narrower than others on its page is text: its lines are full."""
    pairs = list(pairwise(block))
    if len(block) < _LEAST_LINES or not all(map(_is_text, block[:-1])):
        return False
    full = sum(_is_full(line, below, right) for line, below in pairs)
    small = sum(below.text[:1].islower() for _, below in pairs)
    return full >= _LEAST_FULL * len(pairs) and small >= _LEAST_SMALL * len(pairs)


def _is_full(line: Line, below: Line, right: float) -> bool:
    """Return whether the first word of the next line has no room in a line."""
    width = below.height if _WIDE.match(below.text) else below.first_width + _SPACE * line.height
    return bool(_HYPHEN.search(line.text)) or line.right + width > right


def _is_aligned(lines: Sequence[Line], line: Line) -> bool:
    """Return whether a line begins where one of the same paragraph does."""
    first, before = lines[0], lines[-1]
    height = line.height
    if _FROM_THE_RIGHT.search(line.text):
        return True
    indent = (line.left - before.left) / height
    if abs(indent) <= _SAME_EDGE:
        return True
    if len(lines) > 1:
        # Only the first line of a paragraph begins elsewhere.
        return False
    if indent < 0:
        return indent >= -_FARTHEST_INDENT and not _MARK_OF_ITEM.match(first.text)
    places = [*before.cells[:1], *([before.second] if _MARK_OF_ITEM.match(first.text) else [])]
    is_hanging = any(abs(line.left - place) <= _SAME_EDGE * height for place in places)
    return is_hanging or (indent <= _FARTHEST_INDENT and line.text[:1].islower())
