"""Word files are read as they are shown: everything visible in its order, nothing that is deleted or hidden."""

import pytest

from kb_client.files.extraction import Extraction, ExtractOptions
from kb_client.files.formats.office.word import extract
from kb_client.files.limits import ParseLimits
from tests.unit.client.files.word_files import paragraph, word_file

OPTIONS = ExtractOptions(ParseLimits())


def read(body: str, others: dict[str, str] | None = None, **parts: str) -> Extraction:
    return extract(word_file(body, others, **parts), OPTIONS)


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def row(*cells: str, properties: str = "") -> str:
    return f"<w:tr><w:trPr>{properties}</w:trPr>{''.join(cells)}</w:tr>"


def cell(text: str, properties: str = "", form: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr><w:p>{run(text, form)}</w:p></w:tc>"


BOX = f"<w:txbxContent>{paragraph('Call 118.')}</w:txbxContent>"
CHOICE = (
    '<mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wp:inline><a:graphic><a:graphicData><wps:wsp>'
    f"<wps:txbx>{BOX}</wps:txbx></wps:wsp></a:graphicData></a:graphic></wp:inline></w:drawing></mc:Choice><mc:Fallback><w:pict>"
    f"<v:textbox>{BOX}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent>"
)
FIELD = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
FORM = '<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{}</w:ffData></w:fldChar></w:r>' + FIELD.format("end")
FRACTION = "<m:oMath><m:f><m:num>{}</m:num><m:den>{}</m:den></m:f></m:oMath>"
NOT_HIDDEN = '<w:vanish w:val="0"/>'
RAISED, LOWERED = (f'<w:vertAlign w:val="{position}script"/>' for position in ("super", "sub"))
RUBY = (
    "<w:r><w:ruby><w:rt><w:r><w:t>kana</w:t></w:r></w:rt>"
    "<w:rubyBase><w:r><w:t>kanji</w:t></w:r></w:rubyBase></w:ruby></w:r>"
)
BEGIN, SEPARATE, END = map(FIELD.format, ("begin", "separate", "end"))
INNER = f"{BEGIN}{SEPARATE}<w:r><w:t>not shown</w:t></w:r>{END}"
NESTED = f"{BEGIN}<w:r><w:instrText>IF a</w:instrText></w:r>{INNER}{SEPARATE}<w:r><w:t>two weeks</w:t></w:r>{END}"
PICTURE = (
    '<w:r><w:drawing><wp:inline><wp:docPr id="1" name="P" descr="A red lever. Description automatically generated"/>'
    "<a:graphic/></wp:inline></w:drawing></w:r>"
)
CHOICES = '<w:ddList><w:result w:val="1"/><w:listEntry w:val="no"/><w:listEntry w:val="yes"/></w:ddList>'
X, Y = ("<m:r><m:t>x+1</m:t></m:r>", "<m:r><m:t>y</m:t></m:r>")


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        (f"<w:sdt><w:sdtContent>{run('two weeks')}</w:sdtContent></w:sdt>", "two weeks"),
        (f"<w:ins>{run('two weeks')}</w:ins><w:del><w:r><w:delText>a month</w:delText></w:r></w:del>", "two weeks"),
        (f"<w:moveTo>{run('two weeks')}</w:moveTo><w:moveFrom>{run('a month')}</w:moveFrom>", "two weeks"),
        (f'<w:fldSimple w:instr="DATE">{run("two weeks")}</w:fldSimple>', "two weeks"),
        (f"<w:smartTag><w:customXml>{run('two weeks')}</w:customXml></w:smartTag>", "two weeks"),
        (f"<w:hyperlink><w:dir><w:bdo>{run('two weeks')}</w:bdo></w:dir></w:hyperlink>", "two weeks"),
        (f"<w:later>{run('two weeks')}</w:later>", "two weeks"),
        (f"{run('two weeks')}{run('a month', '<w:vanish/>')}", "two weeks"),
        (f"{run('two ', NOT_HIDDEN)}{run('weeks')}", "two weeks"),
        (f"{run('a month', '<w:strike/>')}{run(' two weeks')}", "~~a month~~ two weeks"),
        (f"{run('10')}{run('-', RAISED)}{run('3', RAISED)}", "10^-3"),
        (f"{run('CO')}{run('2', LOWERED)}", "CO₂"),
        (f"{run('1')}{run('1', RAISED)}{run('/')}{run('2', LOWERED)}{run(' inch')}", "1 1/2 inch"),
        ('<w:r><w:sym w:font="Symbol" w:char="F06D"/><w:t>m</w:t></w:r>', "μm"),
        ('<w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>', "☑"),
        (run("\uf0fc", '<w:rFonts w:ascii="Wingdings"/>'), "✓"),
        ("<w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:noBreakHyphen/><w:t>c</w:t><w:softHyphen/></w:r>", "a\tb-c"),
        (f"<w:r>{CHOICE}</w:r>", "\n\nCall 118."),
        (f"<w:r><w:pict><v:shape><v:textbox>{BOX}</v:textbox></v:shape></w:pict></w:r>", "\n\nCall 118."),
        ('<w:r><w:pict><v:shape><v:textpath string="DRAFT"/></v:shape></w:pict></w:r>', "\n\nDRAFT"),
        (FRACTION.format(X, Y), "(x+1)/y"),
        (f"<m:oMathPara>{FRACTION.format(Y, X)}</m:oMathPara>", "y/(x+1)"),
        (f"<m:oMath><m:sSup><m:e>{Y}</m:e><m:sup>{X}</m:sup></m:sSup></m:oMath>", "y^(x+1)"),
        (f"<m:oMath><m:rad><m:deg/><m:e>{X}</m:e></m:rad></m:oMath>", "√(x+1)"),
        (FORM.format('<w:checkBox><w:default w:val="0"/><w:checked/></w:checkBox>'), "☒"),
        (FORM.format('<w:checkBox><w:default w:val="0"/></w:checkBox>'), "☐"),
        (FORM.format(CHOICES), "yes"),
        (run("10") + run("7", '<w:position w:val="9"/><w:sz w:val="16"/>'), "10^7"),
        (run("x") + run("1", '<w:position w:val="-4"/><w:sz w:val="16"/>'), "x₁"),
        (run("low", '<w:position w:val="-4"/>'), "low"),
        (RUBY, "kanji(kana)"),
        (NESTED, "two weeks"),
        (PICTURE, "[picture: A red lever.]"),
    ],
)  # fmt: skip
def test_what_is_shown_of_a_paragraph_is_its_text(inner: str, text: str) -> None:
    extraction = read(f"<w:p>{run('Within ')}{inner}{run(' of receipt.')}</w:p>")
    line, _, below = text.partition("\n\n")
    assert extraction.text == f"Within {line} of receipt." + (f"\n\n{below}" if below else "")


STYLES = (
    '<w:style w:styleId="Note"><w:name w:val="Note"/><w:rPr><w:vanish/></w:rPr></w:style>'
    '<w:style w:styleId="Small"><w:name w:val="Small"/><w:basedOn w:val="Note"/></w:style>'
    '<w:style w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>'
    '<w:style w:styleId="Clause"><w:name w:val="Clause"/><w:basedOn w:val="berschrift2"/>'
    '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    '<w:style w:styleId="Loud" w:type="table"><w:tblStylePr w:type="firstRow"><w:rPr><w:b/></w:rPr></w:tblStylePr>'
    "</w:style>"
)


def style(name: str) -> str:
    return f'<w:pStyle w:val="{name}"/>'


def test_hidden_text_of_a_style_is_left_out() -> None:
    body = paragraph("Seen.") + paragraph("Not seen.", style("Small"))
    assert read(body, styles=STYLES).text == "Seen."


def level(at: int, form: str, text: str, more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>{more}<w:lvlText w:val="{text}"/></w:lvl>'
    )


def in_list(number: int, at: int = 0) -> str:
    return f'<w:numPr><w:ilvl w:val="{at}"/><w:numId w:val="{number}"/></w:numPr>'


NUMBERING = (
    '<w:abstractNum w:abstractNumId="7">'
    + level(0, "decimal", "%1.", '<w:pStyle w:val="Clause"/>')
    + level(1, "lowerLetter", "%1.%2)")
    + level(2, "bullet", "")
    + '</w:abstractNum><w:abstractNum w:abstractNumId="8">'
    + level(0, "upperRoman", "§ %1")
    + '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
    '<w:num w:numId="2"><w:abstractNumId w:val="8"/></w:num>'
    '<w:num w:numId="3"><w:abstractNumId w:val="8"/>'
    '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="4"/></w:lvlOverride></w:num>'
)


def test_automatic_numbers_are_part_of_the_text() -> None:
    body = (
        paragraph("Scope", style("Clause"))
        + paragraph("first", in_list(1, 1))
        + paragraph("second", in_list(1, 1))
        + paragraph("point", in_list(1, 2))
        + paragraph("Fees", style("Clause"))
        + paragraph("again", in_list(1, 1))
        + paragraph("Law", in_list(2))
        + paragraph("Court", in_list(3))
        + paragraph("Place", in_list(3))
        + paragraph("plain", in_list(0))
    )
    assert [line.strip() for line in read(body, styles=STYLES, numbering=NUMBERING).text.splitlines() if line] == [
        "## 1. Scope", "1.a) first", "1.b) second", "- point", "## 2. Fees", "2.a) again",
        "§ I Law", "§ IV Court", "§ V Place", "plain",
    ]  # fmt: skip


def test_a_footnote_stands_below_its_paragraph_and_its_mark_is_no_digit_of_a_price() -> None:
    mark = '<w:r><w:footnoteReference w:id="2"/></w:r>'
    notes = f'<w:footnote w:type="separator" w:id="0"/><w:footnote w:id="2">{paragraph("without tax")}</w:footnote>'
    body = f"<w:p>{run('It costs 40')}{mark}{run('.')}</w:p>{paragraph('End.')}"
    assert read(body, footnotes=notes).text == "It costs 40^1.\n\nFootnote 1: without tax\n\nEnd."


def test_a_paragraph_whose_end_is_deleted_goes_on_in_the_next_one() -> None:
    body = paragraph("Pay within ", "<w:rPr><w:del/></w:rPr>") + paragraph("two weeks.")
    assert read(body).text == "Pay within two weeks."


def test_blocks_in_controls_and_unknown_elements_are_read_in_their_order() -> None:
    signer = f"<w:sdt><w:sdtContent>{cell('Uma Falk')}</w:sdtContent></w:sdt>"
    table = f"<w:tbl>{row(cell('Signed by'), signer)}</w:tbl>"
    control = f"<w:sdt><w:sdtContent>{paragraph('One.')}{table}</w:sdtContent></w:sdt>"
    body = f"{control}<w:later>{paragraph('Two.')}</w:later>"
    assert read(body).text == "One.\n\nSigned by: Uma Falk\n\nTwo."


def test_tables_have_the_headers_that_are_marked_and_no_deleted_rows() -> None:
    deleted = row(cell("Old"), cell("Gone"), properties="<w:del/>")
    people = row(cell("Ida"), cell("Nora")) + deleted + row(cell("Ole"), cell("Freja"))
    marked = row(cell("Crew"), cell("Boat"), properties="<w:tblHeader/>")
    bold = row(cell("Crew", form="<w:b/>"), cell("Boat", form="<w:b/>"))
    look = '<w:tblPr><w:tblStyle w:val="Loud"/><w:tblLook w:val="04A0"/></w:tblPr>'
    for table in (marked + people, bold + people, look + row(cell("Crew"), cell("Boat")) + people):
        assert read(f"<w:tbl>{table}</w:tbl>", styles=STYLES).text == "Crew: Ida; Boat: Nora\nCrew: Ole; Boat: Freja"
    assert read(f"<w:tbl>{people}</w:tbl>").text == "Ida: Nora\nOle: Freja"


def test_merged_cells_are_repeated_in_their_rows_and_columns() -> None:
    first, next_one, marked = '<w:vMerge w:val="restart"/>', "<w:vMerge/>", "<w:tblHeader/>"
    head = row(cell("Mill", first), cell("2021", '<w:gridSpan w:val="2"/>'), properties=marked)
    names = row(cell("", next_one), cell("Plan"), cell("Done"), properties=marked)
    rows = row(cell("East", first), cell("5"), cell("4")) + row(cell("", next_one), cell("6"), cell("7"))
    assert read(f"<w:tbl>{head}{names}{rows}</w:tbl>").text == (
        "Mill: East; 2021 Plan: 5; 2021 Done: 4\nMill: East; 2021 Plan: 6; 2021 Done: 7"
    )


def test_a_table_of_one_column_is_a_frame_around_its_paragraphs() -> None:
    inner = paragraph("Safety", style("berschrift2")) + paragraph("Wear gloves.")
    assert read(f"<w:tbl><w:tr><w:tc>{inner}</w:tc></w:tr></w:tbl>", styles=STYLES).text == "## Safety\n\nWear gloves."


def test_headers_and_footers_that_are_shown_are_read_once_without_page_numbers() -> None:
    section = (
        '<w:sectPr><w:headerReference w:type="default" r:id="header"/><w:footerReference r:id="footer"/>'
        '<w:headerReference w:type="first" r:id="other"/></w:sectPr>'
    )
    extraction = read(
        f"<w:p><w:pPr>{section}</w:pPr></w:p>{paragraph('Text.')}{section}",
        header=paragraph("Contract K-17"),
        footer=paragraph("Page 1 of 3") + paragraph("Kestrel Ltd"),
    )
    assert extraction.text == "Contract K-17\n\nText.\n\nKestrel Ltd"


CHART = (
    '<c:chartSpace xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart"><c:ser>'
    "<c:tx><c:v>Visitors</c:v></c:tx>"
    '<c:cat><c:pt idx="0"><c:v>May</c:v></c:pt><c:pt idx="1"><c:v>June</c:v></c:pt></c:cat>'
    "<c:val><c:formatCode>0%</c:formatCode>"
    '<c:pt idx="0"><c:v>0.25</c:v></c:pt><c:pt idx="1"><c:v>0.5</c:v></c:pt></c:val></c:ser></c:chartSpace>'
)
POINT = "<d:pt{}><d:t><a:p><a:r><a:t>{}</a:t></a:r></a:p></d:t></d:pt>"
DIAGRAM = (
    '<d:dataModel xmlns:d="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">'
    + POINT.format("", "Order")
    + POINT.format(' type="pres"', "placeholder")
    + POINT.format("", "Ship")
    + "</d:dataModel>"
)
DRAWING = "<w:p><w:r><w:drawing><wp:inline>{}</wp:inline></w:drawing></w:r></w:p>"


def test_charts_and_diagrams_are_texts() -> None:
    chart, diagram = DRAWING.format('<c:chart r:id="ch"/>'), DRAWING.format('<dgm:relIds r:dm="di"/>')
    assert read(chart + diagram, {"ch": CHART, "di": DIAGRAM}).text == (
        "May; Visitors: 25%\nJune; Visitors: 50%\n\nOrder\nShip"
    )


def test_what_was_not_read_is_counted_with_a_remedy() -> None:
    picture = DRAWING.format('<wp:extent cx="6000000" cy="6000000"/><a:graphic><a:blip/></a:graphic>')
    embedded = "<w:p><w:r><w:object><o:OLEObject/></w:object></w:r></w:p>"
    body = f'{picture}{embedded}<w:altChunk r:id="x"/>{paragraph("Text.")}'
    extraction = read(body, comments="<w:comment/><w:comment/>")
    assert extraction.warnings == (
        "2 comments were left out; write what should be found into the text",
        "1 embedded object was not read; save each as a file of its own",
        "1 embedded document was not read; open and save the file once in Word",
        "1 large picture was not read; if they hold text, push the file as a PDF with --ocr",
    )


def test_a_field_without_an_end_hides_no_other_paragraph() -> None:
    body = f"<w:p>{FIELD.format('begin')}<w:r><w:instrText>TOC</w:instrText></w:r></w:p>{paragraph('Text.')}"
    assert read(body).text == "Text."


def test_a_title_of_a_template_gives_way_to_the_first_heading() -> None:
    heading = paragraph("Care of knives", style("berschrift2"))
    # Without properties, python-docx names the document `Word Document`.
    assert read(heading, styles=STYLES).title == "Care of knives"
