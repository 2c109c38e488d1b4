"""Presentations are read as they are shown, slide by slide."""

import io
from typing import Any

import pptx
from lxml import etree
from PIL import Image
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from kb_client.files.extraction import Extraction, ExtractOptions
from kb_client.files.formats.office.powerpoint import extract
from kb_client.files.limits import ParseLimits

OPTIONS = ExtractOptions(ParseLimits())
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
NAMESPACES = (
    f'xmlns:a="{DRAWING}" xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:a14="http://schemas.microsoft.com/office/drawing/2010/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
)
EQUATION = (
    "<a14:m><m:oMath><m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:r><m:t>b</m:t></m:r></m:den></m:f>"
    "</m:oMath></a14:m>"
)
AREA = (Inches(1), Inches(3), Inches(6), Inches(2))


def png() -> bytes:
    file = io.BytesIO()
    Image.new("L", (8, 8), 200).save(file, "PNG")
    return file.getvalue()


def new_slide(presentation: Any, title: str = "Plan") -> Any:
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = title
    return slide


def read(presentation: Any) -> Extraction:
    file = io.BytesIO()
    presentation.save(file)
    return extract(file.getvalue(), OPTIONS)


def text_box(slide: Any, paragraphs: str) -> None:
    body = slide.shapes.add_textbox(*AREA).text_frame._txBody
    for paragraph in body.findall(f"{{{DRAWING}}}p"):
        body.remove(paragraph)
    for element in etree.fromstring(f"<x {NAMESPACES}>{paragraphs}</x>"):
        body.append(element)


def test_a_chart_is_a_table_of_its_values() -> None:
    presentation = pptx.Presentation()
    data = CategoryChartData(number_format="0%")
    data.categories = ["Spring", "Autumn"]
    data.add_series("Booked", (0.55, 0.7))
    data.add_series("Cancelled", (0.05, 0.1))
    chart = new_slide(presentation).shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *AREA, data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Use of the cabins"
    assert read(presentation).text == (
        "## Plan\n\nUse of the cabins\nSpring; Booked: 55%; Cancelled: 5%\nAutumn; Booked: 70%; Cancelled: 10%"
    )


def test_groups_of_categories_are_named_in_each_of_them() -> None:
    presentation = pptx.Presentation()
    data = CategoryChartData()
    for name, towns in (("North", ("Oslo", "Bergen")), ("South", ("Rome",))):
        group = data.add_category(name)
        for town in towns:
            group.add_sub_category(town)
    data.add_series("Beds", (4, 5, 6))
    new_slide(presentation).shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *AREA, data)
    lines = ["North Oslo; Beds: 4", "North Bergen; Beds: 5", "South Rome; Beds: 6"]
    assert read(presentation).text.splitlines()[2:] == lines


def test_alternative_texts_of_pictures_are_read_and_names_of_files_are_not() -> None:
    presentation = pptx.Presentation()
    slide = new_slide(presentation)
    for text in ("The valve in its open position", "valve_17.png", "image1"):
        picture = slide.shapes.add_picture(io.BytesIO(png()), 0, Inches(2), Inches(1), Inches(1))
        picture._element.nvPicPr.cNvPr.set("descr", text)
    assert read(presentation).text == "## Plan\n\nPicture: The valve in its open position"


def test_raised_and_struck_characters_lists_and_equations_are_written_as_shown() -> None:
    presentation = pptx.Presentation()
    text_box(
        new_slide(presentation),
        '<a:p><a:r><a:t>4 · 10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>5</a:t></a:r><a:br/>'
        '<a:r><a:rPr strike="sngStrike"/><a:t>old</a:t></a:r></a:p>'
        '<a:p><a:pPr><a:buAutoNum type="arabicParenR" startAt="3"/></a:pPr><a:r><a:t>open</a:t></a:r></a:p>'
        '<a:p><a:pPr lvl="1"><a:buAutoNum type="alphaLcPeriod"/></a:pPr><a:r><a:t>slowly</a:t></a:r></a:p>'
        '<a:p><a:pPr><a:buAutoNum type="arabicParenR"/></a:pPr><a:r><a:t>close</a:t></a:r></a:p>'
        f"<a:p><mc:AlternateContent><mc:Choice>{EQUATION}</mc:Choice><mc:Fallback/></mc:AlternateContent></a:p>",
    )
    assert read(presentation).text == "## Plan\n\n4 · 10^5\n~~old~~\n3) open\n  a. slowly\n4) close\na/b"


def test_cells_of_tables_are_merged_and_named_as_shown() -> None:
    presentation = pptx.Presentation()
    table = new_slide(presentation).shapes.add_table(3, 3, *AREA).table
    for at, row in enumerate([("Mill", "Owner", "Town"), ("East", "Ida", "Gent"), ("", "Ole", "Lyon")]):
        for column, text in enumerate(row):
            table.cell(at, column).text = text
    table.cell(1, 0).merge(table.cell(2, 0))
    assert read(presentation).text.endswith("Mill: East; Owner: Ida; Town: Gent\nMill: East; Owner: Ole; Town: Lyon")


def test_labels_with_their_values_are_no_table_of_a_new_style() -> None:
    presentation = pptx.Presentation()
    table = new_slide(presentation).shapes.add_table(2, 2, *AREA).table
    for at, row in enumerate([("Owner", "Ida Holm"), ("Town", "Gent")]):
        for column, text in enumerate(row):
            table.cell(at, column).text = text
    assert read(presentation).text.endswith("Owner: Ida Holm\nTown: Gent")


def test_hidden_shapes_and_numbers_of_slides_are_left_out() -> None:
    presentation = pptx.Presentation()
    slide = new_slide(presentation)
    box = slide.shapes.add_textbox(*AREA)
    box.text_frame.text = "not shown"
    box._element.nvSpPr.cNvPr.set("hidden", "1")
    assert read(presentation).text == "## Plan"


def test_a_slide_that_is_a_picture_is_said() -> None:
    presentation = pptx.Presentation()
    new_slide(presentation, "Plan")
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    slide.shapes.add_picture(io.BytesIO(png()), 0, 0, presentation.slide_width, presentation.slide_height)
    assert read(presentation).warnings == (
        "1 slide with a large picture and hardly any text was not read; push them as a PDF with --ocr",
    )
