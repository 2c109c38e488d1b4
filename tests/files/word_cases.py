"""Word files with the elements that Word writes and few libraries know."""

from typing import Final

from tests.files.case import Case, Expected
from tests.unit.client.files.strict_files import to_strict
from tests.unit.client.files.word_files import paragraph, word_file

_STYLE: Final = '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style>'
_HEADING: Final = '<w:pStyle w:val="Heading1"/>'
_LEVEL: Final = (
    '<w:lvl w:ilvl="{level}"><w:start w:val="1"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{text}"/></w:lvl>'
)


def _word(
    name: str,
    body: str,
    *shows: Expected,
    hides: tuple[str, ...] = (),
    warns: str | None = None,
    title: str | None = None,
    others: dict[str, str] | None = None,
    **parts: str,
) -> Case:
    return Case(name, ".docx", word_file(body, others, **parts), shows, hides, warns, title)


def _run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def _deleted(text: str) -> str:
    return f'<w:del w:id="9" w:author="X"><w:r><w:delText xml:space="preserve">{text}</w:delText></w:r></w:del>'


def _field(code: str, result: str) -> str:
    marks = [f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")]
    return f"{marks[0]}<w:r><w:instrText> {code} </w:instrText></w:r>{marks[1]}{_run(result)}{marks[2]}"


def _p(*runs: str) -> str:
    return f"<w:p>{''.join(runs)}</w:p>"


def _control(content: str) -> str:
    return f"<w:sdt><w:sdtPr/><w:sdtContent>{content}</w:sdtContent></w:sdt>"


def _table(*rows: tuple[str, ...], header: bool = False, more: str = "") -> str:
    mark = "<w:trPr><w:tblHeader/></w:trPr>" if header else ""
    lines = [
        f"<w:tr>{mark if at == 0 else ''}{''.join(f'<w:tc>{paragraph(cell)}</w:tc>' for cell in row)}</w:tr>"
        for at, row in enumerate(rows)
    ]
    return f"<w:tbl><w:tblPr>{more}</w:tblPr>{''.join(lines)}</w:tbl>"


def _numbered(text: str, level: int = 0, number: int = 1) -> str:
    return paragraph(text, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')


def _numbering(*levels: tuple[str, str]) -> str:
    inner = "".join(_LEVEL.format(level=at, form=form, text=text) for at, (form, text) in enumerate(levels))
    return (
        f'<w:abstractNum w:abstractNumId="0">{inner}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
    )


_BOX: Final = (
    '<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wp:inline><a:graphic><a:graphicData><wps:wsp>'
    "<wps:txbx><w:txbxContent>{0}</w:txbxContent></wps:txbx></wps:wsp></a:graphicData></a:graphic></wp:inline></w:drawing></mc:Choice>"
    "<mc:Fallback><w:pict><v:shape><v:textbox><w:txbxContent>{0}</w:txbxContent></v:textbox></v:shape></w:pict></mc:Fallback>"
    "</mc:AlternateContent></w:r>"
)
_FRACTION: Final = (
    "<m:oMath><m:f><m:num><m:r><m:t>U</m:t></m:r></m:num><m:den><m:r><m:t>R</m:t></m:r></m:den></m:f></m:oMath>"
)
_POWER: Final = (
    "<m:oMath><m:sSup><m:e><m:r><m:t>d</m:t></m:r></m:e><m:sup><m:r><m:t>3</m:t></m:r></m:sup></m:sSup></m:oMath>"
)
_NOTE: Final = '<w:footnote w:id="2"><w:p><w:r><w:t>Without the wagon.</w:t></w:r></w:p></w:footnote>'

CONTENT: Final = [
    _word(
        "a control in a line shows its value",
        _p(_run("The rent is "), _control(_run("640 euros")), _run(" a month.")),
        "The rent is 640 euros a month.",
    ),
    _word(
        "a control around paragraphs shows them",
        _control(paragraph("Tenant: Ivo Maas") + paragraph("Flat: 3 left")),
        "Tenant: Ivo Maas",
        "Flat: 3 left",
    ),
    _word("a control in a control shows its value", _p(_control(_control(_run("Deposit 900")))), "Deposit 900"),
    _word(
        "a control around a cell shows its value",
        f"<w:tbl><w:tr><w:tc>{paragraph('Meter')}</w:tc>{_control('<w:tc>' + paragraph('77 kWh') + '</w:tc>')}</w:tr></w:tbl>",
        "Meter",
        "77 kWh",
    ),
    _word(
        "a control around a row shows it",
        f"<w:tbl>{_control('<w:tr><w:tc>' + paragraph('Cellar 4') + '</w:tc></w:tr>')}</w:tbl>",
        "Cellar 4",
    ),
    _word(
        "inserted words are shown",
        _p(_run("Notice: "), f'<w:ins w:id="1" w:author="X">{_run("three")}</w:ins>', _run(" months")),
        "Notice: three months",
    ),
    _word(
        "deleted words are not shown", _p(_run("Pets: "), _deleted("no "), _run("yes")), "Pets: yes", hides=("no yes",)
    ),
    _word(
        "moved words are shown once, at their new place",
        _p(f'<w:moveFrom w:id="1">{_run("Parking 12. ")}</w:moveFrom>', _run("Roof. "))
        + _p(f'<w:moveTo w:id="2">{_run("Parking 12. ")}</w:moveTo>'),
        "Roof.",
        "Parking 12.",
        hides=("Parking 12. Roof",),
    ),
    _word(
        "a link shows its words",
        _p(_run("See "), f'<w:hyperlink w:anchor="a">{_run("house rules")}</w:hyperlink>', _run(".")),
        "See house rules.",
    ),
    _word(
        "a simple field shows its result",
        _p(_run("Valid until "), f'<w:fldSimple w:instr="DATE">{_run("31 May")}</w:fldSimple>'),
        "Valid until 31 May",
    ),
    _word(
        "a field shows its result and not its code",
        _p(_run("Page "), _field("REF rent_7", "640"), _run(" due")),
        "Page 640 due",
        hides=("REF",),
    ),
    _word(
        "a smart tag shows its words",
        _p(_run("Office in "), f'<w:smartTag w:element="City">{_run("Lund")}</w:smartTag>'),
        "Office in Lund",
    ),
    _word(
        "a text box is shown once",
        _p(_run("Plan"), _BOX.format(paragraph("Quiet hours 22-6"))),
        "Plan",
        "Quiet hours 22-6",
    ),
    _word(
        "hidden words are not shown",
        _p(_run("Lift "), _run("internal 44 ", "<w:vanish/>"), _run("works")),
        "Lift works",
        hides=("internal 44",),
    ),
    _word(
        "struck words are marked",
        _p(_run("Fee "), _run("30", "<w:strike/>"), _run(" 25 euros")),
        ("~~30~~",),
        "25 euros",
    ),
    _word(
        "exponents are not digits",
        _p(_run("10"), _run("6", '<w:vertAlign w:val="superscript"/>'), _run(" cells")),
        ("10^6 cells", "10⁶ cells"),
    ),
    _word(
        "indices are not digits",
        _p(_run("H"), _run("2", '<w:vertAlign w:val="subscript"/>'), _run("O")),
        ("H₂O", "H_2O"),
    ),
    _word(
        "a symbol of a font is shown",
        _p(_run("Angle "), '<w:r><w:sym w:font="Symbol" w:char="F061"/></w:r>'),
        "Angle α",
    ),
    _word(
        "tabs and hyphens are characters",
        _p("<w:r><w:t>Key</w:t><w:tab/><w:t>4</w:t><w:noBreakHyphen/><w:t>B</w:t></w:r>"),
        "Key",
        ("4-B", "4‑B"),
    ),
    _word(
        "line breaks part lines",
        _p("<w:r><w:t>Bell 1</w:t><w:br/><w:t>Bell 2</w:t></w:r>"),
        "Bell 1",
        "Bell 2",
        hides=("1Bell",),
    ),
    _word("a fraction is no number beside another", _p(_run("I = "), _FRACTION), "I =", ("U/R", "\\frac{U}{R}")),
    _word("a power is no digit", _p(_run("V ~ "), _POWER), ("d^3", "d³", "d^{3}")),
    _word(
        "comments are not shown",
        _p(_run("Sublet allowed."), '<w:r><w:commentReference w:id="0"/></w:r>'),
        "Sublet allowed.",
        hides=("ask the lawyer",),
        comments=f'<w:comment w:id="0"><w:p>{_run("ask the lawyer")}</w:p></w:comment>',
    ),
    _word(
        "footnotes are shown",
        _p(_run("Train 60 euros"), '<w:r><w:footnoteReference w:id="2"/></w:r>'),
        "Train 60 euros",
        "Without the wagon.",
        footnotes=_NOTE,
    ),
    _word(
        "endnotes are shown",
        _p(_run("See the report"), '<w:r><w:endnoteReference w:id="2"/></w:r>'),
        "See the report",
        "Archive box 5.",
        endnotes=f'<w:endnote w:id="2"><w:p>{_run("Archive box 5.")}</w:p></w:endnote>',
    ),
    _word(
        "a box is checked or not",
        _p(
            '<w:sdt><w:sdtPr><w14:checkbox xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml"><w14:checked w14:val="1"/></w14:checkbox></w:sdtPr><w:sdtContent><w:r><w:t>☒</w:t></w:r></w:sdtContent></w:sdt>',
            _run(" Gas"),
        ),
        "☒ Gas",
    ),
]

LISTS: Final = [
    _word(
        "automatic numbers are shown",
        _numbered("Shut the tap.") + _numbered("Call the plumber."),
        "1. Shut the tap.",
        "2. Call the plumber.",
        numbering=_numbering(("decimal", "%1.")),
    ),
    _word(
        "numbers of levels are shown",
        _numbered("Rent") + _numbered("Due day", 1) + _numbered("Deposit") + _numbered("Return", 1),
        "1 Rent",
        "1.1 Due day",
        "2 Deposit",
        "2.1 Return",
        numbering=_numbering(("decimal", "%1"), ("decimal", "%1.%2")),
    ),
    _word(
        "letters of lists are shown",
        _numbered("wood") + _numbered("steel"),
        "a) wood",
        "b) steel",
        numbering=_numbering(("lowerLetter", "%1)")),
    ),
    _word(
        "numbers of sections are shown",
        _numbered("Purpose") + _numbered("Scope"),
        "§ 1 Purpose",
        "§ 2 Scope",
        numbering=_numbering(("decimal", "§ %1")),
    ),
    _word(
        "Roman numbers are shown",
        _numbered("Site") + _numbered("House") + _numbered("Yard") + _numbered("Roof"),
        "III. Yard",
        "IV. Roof",
        numbering=_numbering(("upperRoman", "%1.")),
    ),
]

TABLES: Final = [
    _word(
        "a marked header names columns",
        _table(("Room", "Use"), ("Attic", "storage"), ("Shed", "bikes"), header=True),
        "Room",
        "Attic",
        "Use",
        "storage",
        "Room",
        "Shed",
    ),
    _word(
        "labels stand beside values",
        _table(("Landlord", "Piet Oord"), ("Contract", "R-118"), ("City", "Delft")),
        "Landlord",
        "Piet Oord",
        "Contract",
        "R-118",
        hides=("Landlord: Contract", "Piet Oord: R-118"),
    ),
    _word(
        "names stand above numbers",
        _table(("Flat", "Area", "Rent"), ("1", "54", "610"), ("2", "71", "790")),
        "Flat: 1",
        "Area: 54",
        "Rent: 610",
        "Flat: 2",
        "Rent: 790",
    ),
    _word(
        "cells over columns are shown once in a row",
        "<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val='2'/></w:tcPr>"
        + paragraph("Heating costs")
        + "</w:tc></w:tr><w:tr><w:tc>"
        + paragraph("Gas")
        + "</w:tc><w:tc>"
        + paragraph("410")
        + "</w:tc></w:tr></w:tbl>",
        "Heating costs",
        "Gas",
        "410",
    ),
    _word(
        "a table in a cell is shown",
        f"<w:tbl><w:tr><w:tc>{paragraph('Outer')}{_table(('Inner', '5'))}{paragraph('')}</w:tc></w:tr></w:tbl>",
        "Outer",
        "Inner",
        "5",
    ),
    _word(
        "a deleted row is not shown",
        f"<w:tbl><w:tr><w:tc>{paragraph('Kept row')}</w:tc></w:tr><w:tr><w:trPr><w:del w:id='3' w:author='X'/></w:trPr><w:tc>{_p(_deleted('Lost row'))}</w:tc></w:tr></w:tbl>",
        "Kept row",
        hides=("Lost row",),
    ),
    _word(
        "tables and paragraphs keep their order",
        paragraph("Above.") + _table(("Mid", "1"), ("Low", "2")) + paragraph("Below."),
        "Above.",
        "Mid",
        "Below.",
    ),
]

DOCUMENTS: Final = [
    _word(
        "a large initial belongs to its word",
        '<w:p><w:pPr><w:framePr w:dropCap="drop" w:lines="3" w:wrap="around"/></w:pPr>'
        + _run("S", '<w:position w:val="-8"/><w:sz w:val="96"/>')
        + "</w:p>"
        + paragraph("wimmers need a cap.")
        + '<w:p><w:pPr><w:framePr w:w="2000" w:wrap="around"/></w:pPr>'
        + _run("In a frame")
        + "</w:p>"
        + paragraph("The end."),
        "Swimmers need a cap.",
        "In a frame The end.",
    ),
    _word(
        "the first heading names it",
        paragraph("Rules of the house", _HEADING) + paragraph("Shoes off."),
        "Rules of the house",
        "Shoes off.",
        title="Rules of the house",
        styles=_STYLE,
    ),
    _word(
        "a style may hide words",
        '<w:p><w:pPr><w:pStyle w:val="Memo"/></w:pPr>' + _run("Secret margin 9") + "</w:p>" + paragraph("Open."),
        "Open.",
        hides=("Secret margin",),
        styles='<w:style w:type="paragraph" w:styleId="Memo"><w:name w:val="Memo"/><w:rPr><w:vanish/></w:rPr></w:style>',
    ),
    _word(
        "capitals are shown as such or as they are",
        _p(_run("warning", "<w:caps/>"), _run(": hot")),
        ("WARNING: hot", "warning: hot"),
    ),
    _word("a comment of a shell is a line", paragraph("# drain the tank"), "# drain the tank"),
    Case(
        "a document in the strict form is read",
        ".docx",
        to_strict(
            word_file(
                paragraph("Rules of the pool", _HEADING)
                + _numbered("Shower first.")
                + _p(
                    _deleted("Run. "),
                    _run("The pool holds 10"),
                    _run("6", '<w:vertAlign w:val="superscript"/>'),
                    _run(" litres."),
                )
                + _table(("Lane", "Depth"), ("North", "180"), header=True),
                styles=_STYLE,
                numbering=_numbering(("decimal", "%1.")),
            )
        ),
        ("Rules of the pool", "1. Shower first.", ("10^6 litres", "10⁶ litres"), "Lane: North", "Depth: 180"),
        ("Run.",),
        title="Rules of the pool",
    ),
    _word("an empty document is refused", paragraph(""), warns="no text"),
]

CASES: Final = [*CONTENT, *LISTS, *TABLES, *DOCUMENTS]
