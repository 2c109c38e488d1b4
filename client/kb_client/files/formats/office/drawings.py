"""Texts of drawings in Word, PowerPoint and Excel files: shapes, charts, SmartArt, alternative texts of pictures."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kb_client.files.formats.office.equations import MATH, equation_text
from kb_client.files.formats.office.number_formats import show_value
from kb_client.files.formats.tables.rows import HeaderRow, rows_to_lines
from kb_client.files.formats.text.superscripts import plain_fractions, struck, subscript, superscript

if TYPE_CHECKING:
    from lxml.etree import _Element

DRAWING: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
CHART: Final = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
DIAGRAM: Final = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
COMPATIBILITY: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
RELATION: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_FILE_NAME: Final = re.compile(
    r"\S*[\\/]\S*|[^\s.]+\.\w{3,4}|(?:image|picture|bild|grafik|img|logo)[ _-]?\d*", re.IGNORECASE
)
_GENERATED: Final = re.compile(
    r"\s*(?:(?:description automatically generated|automatisch generierte beschreibung"
    r"|beschreibung automatisch generiert"
    r"|description générée automatiquement|descripción generada automáticamente)[^\n]*"
    r"|ai-generated content may be incorrect\.?|ki-generierte inhalte können fehlerhaft sein\.?)\s*",
    re.IGNORECASE,
)
"""Sentence that Office writes after its own guess of what a picture shows."""
_MAX_POINTS: Final = 2_000


def paragraph_text(paragraph: "_Element") -> str:
    """Return the text of a paragraph of a shape (`a:p`), with marks of raised, lowered and struck characters."""
    text = ""
    for element in paragraph:
        name = str(element.tag).rpartition("}")[2]
        if name in ("r", "fld"):
            text += _run_text(element, after=text)
        elif name == "br":
            text += "\n"
        elif element.tag == f"{COMPATIBILITY}AlternateContent" or name == "m":
            text += "".join(equation_text(found) for found in element.iter(f"{MATH}oMath"))
    return plain_fractions(text)


def _run_text(run: "_Element", *, after: str) -> str:
    text = run.findtext(f"{DRAWING}t") or ""
    properties = run.find(f"{DRAWING}rPr")
    if properties is None or not text:
        return text
    baseline = properties.get("baseline", "0").rstrip("%")
    if baseline.startswith("-"):
        text = subscript(text)
    elif baseline.strip("0."):
        text = superscript(text, after=after)
    return text if properties.get("strike", "noStrike") == "noStrike" else struck(text)


def shape_text(body: "_Element") -> str:
    """Return the paragraphs in an element."""
    texts = (paragraph_text(paragraph).strip() for paragraph in body.iter(f"{DRAWING}p"))
    return "\n".join(filter(None, texts))


def diagram_text(data: "_Element") -> str:
    """Return the texts of a SmartArt diagram, from its part with the data."""
    points = (point for point in data.iter(f"{DIAGRAM}pt") if point.get("type", "node") in ("node", "asst"))
    return "\n".join(filter(None, map(shape_text, points)))


def alternative_text(properties: "_Element | None") -> str:
    """Return what a person wrote for those who can't see a picture; not the name of a file."""
    if properties is None or any(
        str(each.tag).endswith("}decorative") and each.get("val") in ("1", "true") for each in properties.iter()
    ):
        return ""
    text = " ".join(_GENERATED.sub("", properties.get("descr") or properties.get("title") or "").split())
    return "" if _FILE_NAME.fullmatch(text) else text


def is_hidden(properties: "_Element | None") -> bool:
    return properties is not None and properties.get("hidden") in ("1", "true")


def chart_titles(chart: "_Element") -> list[str]:
    """Return the titles of a chart and of its axes."""
    return list(filter(None, (" ".join(shape_text(title).split()) for title in chart.iter(f"{CHART}title"))))


def chart_text(chart: "_Element") -> str:
    """Return a chart as its titles and a table: a line for each category, with the values of all series."""
    series = list(chart.iter(f"{CHART}ser"))
    names = [" ".join("".join(_texts(one.find(f"{CHART}tx"))).split()) or "Value" for one in series]
    columns = [dict(_points(one, "val") or _points(one, "yVal")) for one in series]
    categories = {at: text for one in series for at, text in (_points(one, "cat") or _points(one, "xVal"))}
    places = sorted(set(categories).union(*columns))[:_MAX_POINTS]
    header = HeaderRow(["", *names])
    rows = [[categories.get(at, ""), *(column.get(at, "") for column in columns)] for at in places]
    return "\n".join([*chart_titles(chart), *rows_to_lines([header, *rows])])


def _texts(part: "_Element | None") -> Iterator[str]:
    yield from () if part is None else (text for text in part.itertext(f"{CHART}v", f"{DRAWING}t"))


def _points(series: "_Element", name: str) -> list[tuple[int, str]]:
    """Return the numbers of points with what is shown for them. Categories can have several levels."""
    part = series.find(f"{CHART}{name}")
    if part is None:
        return []
    code = part.findtext(f".//{CHART}formatCode") or ""
    levels = list(part.iter(f"{CHART}lvl"))
    points = [(at, _shown(text, code)) for at, text in _values(levels[0] if levels else part)]
    # Levels above the first one name groups, up to the next name.
    for level in levels[1:]:
        groups = list(_values(level))
        names = ((at, text, next((name for start, name in reversed(groups) if start <= at), "")) for at, text in points)
        points = [(at, f"{name} {text}".strip()) for at, text, name in names]
    return points


def _values(part: "_Element") -> Iterator[tuple[int, str]]:
    for point in part.iter(f"{CHART}pt"):
        index, value = point.get("idx", ""), point.findtext(f"{CHART}v")
        if index.isdigit() and value is not None:
            yield int(index), value


def _shown(text: str, code: str) -> str:
    from openpyxl.styles.numbers import is_date_format
    from openpyxl.utils.datetime import from_excel

    try:
        value = float(text)
        return show_value(from_excel(value) if is_date_format(code) else value, code or None)
    except (ValueError, OverflowError):
        return text
