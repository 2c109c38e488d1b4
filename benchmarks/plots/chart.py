"""A line chart as SVG, without a library: the same input always gives the same text."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

Point = tuple[float, float]

_WIDTH: Final = 760
_HEIGHT: Final = 320
_LEFT: Final = 70
_RIGHT: Final = 180
_TOP: Final = 40
_BOTTOM: Final = 50
_COLORS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
_TICKS: Final = 6


@dataclass(frozen=True, slots=True)
class ChartLine:
    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A vertical line at a time at which something was done."""

    at: float
    name: str


@dataclass(frozen=True, slots=True)
class LineChart:
    """Describes a chart.

    Attributes:
        ticks: labels below, as positions and texts; round numbers by default.
    """

    title: str
    below: str
    beside: str
    lines: Sequence[ChartLine]
    marks: Sequence[ChartMark] = ()
    log_x: bool = False
    log_y: bool = False
    ticks: Sequence[tuple[float, str]] = field(default=())


def render_chart(chart: LineChart) -> str:
    """Return the SVG document."""
    xs = [x for line in chart.lines for x, _ in line.points]
    ys = [y for line in chart.lines for _, y in line.points]
    horizontal = _Axis(min(xs), max(xs), _LEFT, _WIDTH - _RIGHT, is_log=chart.log_x)
    low = min(ys) if chart.log_y else min(0.0, *ys)
    vertical = _Axis(low, max(ys), _HEIGHT - _BOTTOM, _TOP, is_log=chart.log_y)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
            f'font-size="12" role="img" aria-label="{escape(chart.title)}">'
        ),
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_LEFT, 22, chart.title, size=14),
        *_grid(chart, horizontal, vertical),
        *(_mark(mark, horizontal) for mark in chart.marks),
        *(part for number, line in enumerate(chart.lines) for part in _line(line, number, horizontal, vertical)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    begin: float
    end: float
    is_log: bool

    def place(self, value: float) -> float:
        low, high, at = (self._scaled(each) for each in (self.low, self.high, value))
        return round(self.begin + (self.end - self.begin) * (at - low) / ((high - low) or 1), 1)

    def ticks(self) -> Iterator[float]:
        if self.is_log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            yield from (10.0**power for power in range(first, last + 1) if self.low <= 10.0**power <= self.high)
            return
        step = _round_step((self.high - self.low) / _TICKS)
        number = math.ceil(self.low / step)
        while number * step <= self.high:
            yield number * step
            number += 1

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.is_log else value


def _round_step(step: float) -> float:
    """Return the next larger 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step)


def _grid(chart: LineChart, horizontal: _Axis, vertical: _Axis) -> Iterator[str]:
    below = chart.ticks or [(value, _number(value)) for value in horizontal.ticks()]
    for value, name in below:
        x = horizontal.place(value)
        yield f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{_HEIGHT - _BOTTOM}" stroke="#eee"/>'
        yield _text(x, _HEIGHT - _BOTTOM + 16, name, anchor="middle")
    for value in vertical.ticks():
        y = vertical.place(value)
        yield f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" stroke="#ddd"/>'
        yield _text(_LEFT - 6, y + 4, _number(value), anchor="end")
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    yield _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 12, chart.below, anchor="middle")
    yield f'<g transform="rotate(-90 16 {middle})">{_text(16, middle, chart.beside, anchor="middle")}</g>'


def _line(line: ChartLine, number: int, horizontal: _Axis, vertical: _Axis) -> Iterator[str]:
    color = _COLORS[number % len(_COLORS)]
    places = " ".join(f"{horizontal.place(x)},{vertical.place(y)}" for x, y in line.points)
    yield f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="1.6"/>'
    y = _TOP + 8 + 18 * number
    yield f'<rect x="{_WIDTH - _RIGHT + 14}" y="{y - 8}" width="12" height="4" fill="{color}"/>'
    yield _text(_WIDTH - _RIGHT + 32, y, line.name)


def _mark(mark: ChartMark, horizontal: _Axis) -> str:
    x = horizontal.place(mark.at)
    return (
        f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{_HEIGHT - _BOTTOM}" stroke="#bbb" stroke-dasharray="2 3">'
        f"<title>{escape(mark.name)}</title></line>"
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _number(value: float) -> str:
    for size, name in ((1e9, " bn"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{name}"
    return f"{value:g}"
