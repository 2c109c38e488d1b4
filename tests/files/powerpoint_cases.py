"""Presentations with what stands on slides beside texts."""

import io
from collections.abc import Callable
from typing import Any, Final

from tests.files.case import Case, Expected
from tests.unit.client.files.strict_files import to_strict

_TITLE_ONLY: Final = 5


def _slides(
    name: str,
    *fill: Callable[[Any], object],
    shows: tuple[Expected, ...] = (),
    hides: tuple[str, ...] = (),
    warns: str | None = None,
    title: str | None = None,
) -> Case:
    """Return a presentation with a slide for each function, which fills it."""
    return Case(name, ".pptx", _filled(*fill), shows, hides, warns, title)


def _filled(*fill: Callable[[Any], object]) -> bytes:
    import pptx

    presentation = pptx.Presentation()
    for each in fill:
        each(presentation.slides.add_slide(presentation.slide_layouts[_TITLE_ONLY]))
    data = io.BytesIO()
    presentation.save(data)
    return data.getvalue()


def _all(*changes: Callable[[Any], object]) -> Callable[[Any], None]:
    def change(slide: Any) -> None:
        for each in changes:
            each(slide)

    return change


def _title(text: str) -> Callable[[Any], object]:
    return lambda slide: setattr(slide.shapes.title, "text", text)


def _box(text: str, *, top: int = 2, left: int = 1) -> Callable[[Any], object]:
    from pptx.util import Inches

    def add(slide: Any) -> None:
        slide.shapes.add_textbox(Inches(left), Inches(top), Inches(3), Inches(1)).text_frame.text = text

    return add


def _table(*rows: tuple[str, ...]) -> Callable[[Any], object]:
    from pptx.util import Inches

    def add(slide: Any) -> None:
        table = slide.shapes.add_table(len(rows), len(rows[0]), Inches(1), Inches(2), Inches(6), Inches(2)).table
        for at, row in enumerate(rows):
            for column, text in enumerate(row):
                table.cell(at, column).text = text

    return add


def _chart(slide: Any) -> None:
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE
    from pptx.util import Inches

    data = CategoryChartData()
    data.categories = ["Lyon", "Turin"]
    data.add_series("Visitors", (412, 587))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(2), Inches(6), Inches(4), data)


def _group(slide: Any) -> None:
    from pptx.util import Inches

    group = slide.shapes.add_group_shape()
    group.shapes.add_textbox(Inches(1), Inches(2), Inches(2), Inches(1)).text_frame.text = "Stage left"
    group.shapes.add_textbox(Inches(4), Inches(2), Inches(2), Inches(1)).text_frame.text = "Stage right"


def _notes(text: str) -> Callable[[Any], object]:
    return lambda slide: setattr(slide.notes_slide.notes_text_frame, "text", text)


def _hide(slide: Any) -> None:
    slide._element.set("show", "0")


def _raised(slide: Any) -> None:
    from pptx.util import Inches

    paragraph = slide.shapes.add_textbox(Inches(1), Inches(2), Inches(3), Inches(1)).text_frame.paragraphs[0]
    paragraph.add_run().text = "Load 10"
    run = paragraph.add_run()
    run.text = "7"
    run.font._element.set("baseline", "30000")
    paragraph.add_run().text = " N"


def _commented(slide: Any) -> None:
    from pptx.opc.package import Part
    from pptx.opc.packuri import PackURI

    namespace = "http://schemas.openxmlformats.org/presentationml/2006/main"
    xml = f'<p:cmLst xmlns:p="{namespace}"><p:cm authorId="0" idx="1"><p:text>Too loud?</p:text></p:cm></p:cmLst>'
    name, kind = PackURI("/ppt/comments/comment1.xml"), "application/vnd.openxmlformats-officedocument.presentationml"
    part = Part(name, f"{kind}.comments+xml", slide.part.package, xml.encode())
    slide.part.relate_to(part, "http://schemas.openxmlformats.org/officeDocument/2006/relationships/comments")


def _numbered(slide: Any) -> None:
    from pptx.oxml.ns import qn
    from pptx.util import Inches

    frame = slide.shapes.add_textbox(Inches(1), Inches(2), Inches(3), Inches(1)).text_frame
    frame.text = "Dim the lights\nOpen the curtain"
    for paragraph in frame.paragraphs:
        paragraph._p.get_or_add_pPr().makeelement(qn("a:buAutoNum"), {"type": "arabicPeriod"})
        number = paragraph._p.get_or_add_pPr().makeelement(qn("a:buAutoNum"), {"type": "arabicPeriod"})
        paragraph._p.get_or_add_pPr().append(number)


def _breaks(slide: Any) -> None:
    from pptx.util import Inches

    paragraph = slide.shapes.add_textbox(Inches(1), Inches(2), Inches(3), Inches(1)).text_frame.paragraphs[0]
    paragraph.add_run().text = "Doors 19:00"
    paragraph.add_line_break()
    paragraph.add_run().text = "Show 20:00"


def _merged(slide: Any) -> None:
    _table(("Hall", "Seats", "Seats"), ("Red", "410", "90"), ("Blue", "380", "75"))(slide)
    table = next(shape for shape in slide.shapes if shape.has_table).table
    table.cell(0, 2).text = ""
    table.cell(0, 1).merge(table.cell(0, 2))


def _picture(description: str) -> Callable[[Any], object]:
    from pptx.util import Inches

    def add(slide: Any) -> None:
        from PIL import Image

        data = io.BytesIO()
        Image.new("L", (4, 4), 128).save(data, "PNG")
        data.seek(0)
        picture = slide.shapes.add_picture(data, 0, 0, Inches(10), Inches(7))
        picture._element.nvPicPr.cNvPr.set("descr", description)

    return add


CASES: Final = [
    _slides(
        "title and texts show",
        _all(_title("Tour 2025"), _box("Twelve cities")),
        shows=("Tour 2025", "Twelve cities"),
        title="Tour 2025",
    ),
    _slides("slides keep their order", _title("First act"), _title("Second act"), shows=("First act", "Second act")),
    _slides(
        "boxes are read from top to bottom",
        _all(_box("Lower box", top=5), _box("Upper box", top=2)),
        shows=("Upper box", "Lower box"),
    ),
    _slides(
        "boxes are read from left to right",
        _all(_box("Right box", left=5), _box("Left box")),
        shows=("Left box", "Right box"),
    ),
    _slides("groups show their texts", _group, shows=("Stage left", "Stage right")),
    _slides(
        "notes are shown", _all(_title("Lights"), _notes("Wait for the bell")), shows=("Lights", "Wait for the bell")
    ),
    _slides(
        "hidden slides are left out and said",
        _title("Open slide"),
        _all(_title("Draft slide"), _hide),
        shows=("Open slide",),
        hides=("Draft slide",),
        warns="1 hidden slide",
    ),
    _slides(
        "a table with a header names its values",
        _table(("City", "Date", "Seats"), ("Lyon", "3 May", "410"), ("Turin", "5 May", "380")),
        shows=("City: Lyon", "Seats: 410", "City: Turin"),
    ),
    _slides(
        "a table to be filled in shows its names",
        _table(("Song", "Key", "Lead"), ("Dawn", "", ""), ("Ebb", "", "")),
        shows=("Song: Dawn", "Song: Ebb", "Key", "Lead"),
    ),
    _slides(
        "labels stand beside values",
        _table(("Venue", "Old Mill"), ("Contact", "Rosa Lind"), ("Door code", "C-19")),
        shows=("Venue", "Old Mill", "Contact", "Rosa Lind"),
        hides=("Venue: Contact", "Old Mill: Rosa Lind"),
    ),
    _slides("merged names belong to each column", _merged, shows=("Red", "410", "90", "Blue", "75")),
    _slides(
        "charts show their values", _all(_title("Audience"), _chart), shows=("Audience", "Lyon", "412", "Turin", "587")
    ),
    _slides("charts name their series", _chart, shows=("Visitors",)),
    _slides("exponents are not digits", _raised, shows=(("10^7 N", "10⁷ N"),), hides=("107",)),
    _slides("lists have the numbers that are shown", _numbered, shows=("1. Dim the lights", "2. Open the curtain")),
    _slides("line breaks part lines", _breaks, shows=("Doors 19:00 Show 20:00",)),
    _slides(
        "pictures say what they show",
        _all(_title("Plan"), _picture("Seats of the red hall")),
        shows=("Plan", "Seats of the red hall"),
    ),
    _slides(
        "a slide that is a picture is said",
        _title("Cover of the tour"),
        _picture(""),
        shows=("Cover of the tour",),
        warns="large picture",
    ),
    _slides(
        "comments are said to be left out",
        _all(_title("Encore"), _commented),
        shows=("Encore",),
        hides=("Too loud",),
        warns="1 comment was left out",
    ),
    _slides(
        "a title of a program gives way",
        _all(_title("Rider"), _box("Two microphones")),
        shows=("Two microphones",),
        title="Rider",
    ),
    _slides("a hash is no heading", _all(_title("Patch"), _box("# dim all")), shows=("Patch", "# dim all")),
    Case(
        "a presentation in the strict form is read",
        ".pptx",
        to_strict(
            _filled(_all(_title("Winter tour"), _table(("City", "Seats", "Hall"), ("Ghent", "310", "Red"))), _raised)
        ),
        ("Winter tour", "City: Ghent", "Seats: 310", ("10^7 N", "10⁷ N")),
        title="Winter tour",
    ),
    _slides("an empty presentation is refused", lambda _: None, warns="no text"),
]
