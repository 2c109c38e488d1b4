"""Makes the files in `programs/`, which programs have written that tests can't run.

Run it as `python -m tests.files.make_program_files`. It needs LibreOffice (libreoffice-writer-nogui,
libreoffice-calc-nogui, libreoffice-impress-nogui), chromium, fonts-dejavu, ghostscript, enscript, groff and
wkhtmltopdf of Debian.
"""

import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "programs"
_MAX_BYTES: Final = 25_000
_ODF: Final = " ".join(
    [
        *(f'xmlns:{each}="urn:oasis:names:tc:opendocument:xmlns:{each}:1.0"' for each in
          ("text", "office", "style", "table", "presentation", "form")),
        'xmlns:number="urn:oasis:names:tc:opendocument:xmlns:datastyle:1.0"',
        'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"',
        'xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"',
        'xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"',
        'xmlns:dc="http://purl.org/dc/elements/1.1/"',
        'xmlns:of="urn:oasis:names:tc:opendocument:xmlns:of:1.2"',
        'office:version="1.3"',
    ]
)  # fmt: skip

_LETTER: Final = """<!doctype html><html><head><meta charset=utf-8><title>Boat club</title></head><body>
<h1>Boat club</h1><p>The season begins in April – bring your <b>life jacket</b> &amp; shoes.</p>
<ol><li>Sign the list.</li><li>Take the blue key.</li></ol>
<table border=1><tr><th>Boat</th><th>Crew</th></tr><tr><td>Heron</td><td>4</td></tr><tr><td>Swift</td><td>2</td></tr></table>
<p>The lake holds 10<sup>8</sup> litres.</p></body></html>"""
_NOTES: Final = """<text:tracked-changes><text:changed-region text:id="c1"><text:deletion><office:change-info>
<dc:creator>K</dc:creator><dc:date>2025-01-01T00:00:00</dc:date></office:change-info><text:p>forty</text:p></text:deletion></text:changed-region>
<text:changed-region text:id="c2"><text:insertion><office:change-info><dc:creator>K</dc:creator><dc:date>2025-01-01T00:00:00</dc:date>
</office:change-info></text:insertion></text:changed-region></text:tracked-changes>
<text:h text:outline-level="1">Lease of the hut</text:h>
<text:p>The hut costs <text:change text:change-id="c1"/><text:change-start text:change-id="c2"/>fifty<text:change-end text:change-id="c2"/> euros<text:note
text:note-class="footnote"><text:note-citation>1</text:note-citation><text:note-body><text:p>Wood is included.</text:p></text:note-body></text:note> a night.</text:p>
<text:p>Written by <text:author-name>Kim Dahl</text:author-name> in <text:placeholder text:placeholder-type="text">May</text:placeholder>.</text:p>
<text:list><text:list-item><text:p>Shut the door.</text:p></text:list-item><text:list-item><text:p>Lock the gate.</text:p></text:list-item></text:list>
<text:p><draw:frame svg:width="5cm" svg:height="2cm" text:anchor-type="paragraph"><draw:text-box><text:p>Key under the stone</text:p></draw:text-box></draw:frame></text:p>"""
_SHEET_STYLES: Final = """<office:automatic-styles>
<number:percentage-style style:name="N1"><number:number number:decimal-places="1" number:min-integer-digits="1"/><number:text>%</number:text></number:percentage-style>
<number:number-style style:name="N2"><number:number number:decimal-places="0" number:min-integer-digits="5"/></number:number-style>
<number:date-style style:name="N3"><number:year number:style="long"/><number:text>-</number:text><number:month number:style="long"/><number:text>-</number:text><number:day number:style="long"/></number:date-style>
<style:style style:name="percent" style:family="table-cell" style:data-style-name="N1"/>
<style:style style:name="code" style:family="table-cell" style:data-style-name="N2"/>
<style:style style:name="day" style:family="table-cell" style:data-style-name="N3"/>
</office:automatic-styles>"""
_SHEET: Final = """<table:table table:name="Fees"><table:table-column table:number-columns-repeated="4"/>
<table:table-row><table:table-cell office:value-type="string"><text:p>Fee</text:p></table:table-cell><table:table-cell office:value-type="string"><text:p>Share</text:p></table:table-cell><table:table-cell office:value-type="string"><text:p>Code</text:p></table:table-cell><table:table-cell office:value-type="string"><text:p>Since</text:p></table:table-cell></table:table-row>
<table:table-row><table:table-cell office:value-type="string"><text:p>Pier</text:p></table:table-cell><table:table-cell table:style-name="percent" office:value-type="percentage" office:value="0.185"/><table:table-cell table:style-name="code" office:value-type="float" office:value="417"/><table:table-cell table:style-name="day" office:value-type="date" office:date-value="2024-05-06"/></table:table-row>
<table:table-row><table:table-cell office:value-type="string"><text:p>Crane</text:p></table:table-cell><table:table-cell table:style-name="percent" table:formula="of:=[.B2]*2" office:value-type="percentage" office:value="0.37"/><table:table-cell table:style-name="code" office:value-type="float" office:value="93"/><table:table-cell table:style-name="day" office:value-type="date" office:date-value="2023-11-30"/></table:table-row>
<table:table-row table:visibility="collapse"><table:table-cell office:value-type="string"><text:p>Bribe</text:p></table:table-cell><table:table-cell office:value-type="float" office:value="99"/></table:table-row>
</table:table>"""
_SLIDES: Final = """<draw:page draw:name="p1" draw:master-page-name="m">
<draw:frame presentation:class="title" svg:x="1cm" svg:y="1cm" svg:width="20cm" svg:height="3cm"><draw:text-box><text:p>Regatta of May</text:p></draw:text-box></draw:frame>
<draw:frame svg:x="1cm" svg:y="6cm" svg:width="20cm" svg:height="5cm"><draw:text-box><text:p>Eleven boats</text:p><text:p>Start at the mole</text:p></draw:text-box></draw:frame>
</draw:page>"""
_ROFF: Final = """.TH KNOT 1 "May 2025" "harbour" "Sailor's Manual"
.SH NAME
knot \\- tie a rope to a ring
.SH SYNOPSIS
.B knot
[\\fB\\-\\-loose\\fR] \\fIrope\\fR
.SH DESCRIPTION
The rope is led through the ring twice, and its end is pulled until the loop is as wide as a hand; then the loop is closed.
"""
_ARTICLE: Final = """<!doctype html><html lang=de><head><meta charset=utf-8><title>Reise</title><style>
body{font:16px 'DejaVu Sans'; width:330px} .begin::first-letter{font-size:60px; float:left; line-height:1}
h2{font-size:16px; letter-spacing:5px} p{hyphens:manual}</style></head><body><h1>Reise im Winter</h1>
<p class=begin>Der Dampfer legt um sechs Uhr ab und kehrt erst am Abend zur&uuml;ck.</p><h2>KAJ&Uuml;TEN</h2>
<p>Karten gelten f&uuml;r alle Vor- und Nach&shy;saison&shy;tage bis 2026-03-31. Der See fasst 10<sup>9</sup> Liter.</p>
<p lang=ar dir=rtl>\u064a\u0641\u062a\u062d \u0627\u0644\u0645\u064a\u0646\u0627\u0621 \u0641\u064a \u0627\u0644\u0633\u0627\u0639\u0629</p></body></html>"""
_PLAIN: Final = "Log of the lighthouse\n\nLamp lit at 18:40.\nFog from the north, visibility 200 m.\n"


def main() -> None:
    """Write all files again."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        for make in (_office, _printers):
            make(Path(folder))
    large = [path.name for path in FOLDER.iterdir() if path.stat().st_size > _MAX_BYTES]
    if large:
        raise SystemExit(f"too large to be committed: {', '.join(large)}")


def _flat(kind: str, media: str, body: str, *, styles: str = "") -> str:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document {_ODF} '
        f'office:mimetype="application/vnd.oasis.opendocument.{media}">{styles}'
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document>"
    )


def _office(folder: Path) -> None:
    master = (
        '<office:automatic-styles><style:page-layout style:name="l"><style:page-layout-properties fo:page-width="28cm" '
        'fo:page-height="21cm"/></style:page-layout></office:automatic-styles><office:master-styles>'
        '<style:master-page style:name="m" style:page-layout-name="l"/></office:master-styles>'
    )
    sources = {
        "letter.html": _LETTER,
        "lease.fodt": _flat("text", "text", _NOTES),
        "fees.fods": _flat("spreadsheet", "spreadsheet", _SHEET, styles=_SHEET_STYLES),
        "regatta.fodp": _flat("presentation", "presentation", _SLIDES, styles=master),
    }
    for name, source in sources.items():
        (folder / name).write_text(source, encoding="utf-8")
    for name, wanted in (
        ("letter.html", "docx:MS Word 2007 XML"),
        ("letter.html", "pdf:writer_web_pdf_Export"),
        ("lease.fodt", "docx"),
        ("lease.fodt", "pdf"),
        ("fees.fods", "xlsx"),
        ("fees.fods", "pdf"),
        ("fees.fods", "csv"),
        ("fees.fods", "html"),
        ("lease.fodt", "html"),
        ("regatta.fodp", "pptx"),
        ("regatta.fodp", "pdf"),
    ):
        filters = ["--infilter=HTML (StarWriter)"] if name.endswith(".html") and wanted.startswith("docx") else []
        _run(folder, "soffice", "--headless", f"-env:UserInstallation=file://{folder}/profile", *filters,
             "--convert-to", wanted, "--outdir", str(folder / "out"), str(folder / name))  # fmt: skip
        suffix = wanted.partition(":")[0]
        made = folder / "out" / f"{name.partition('.')[0]}.{suffix}"
        target = FOLDER / f"libreoffice-{made.name}"
        if suffix in ("docx", "xlsx", "pptx"):
            _pack(made, target)
        else:
            shutil.copyfile(made, target)


def _pack(source: Path, target: Path) -> None:
    """Copy a file of Office with the strongest compression."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        for name in old.namelist():
            if not name.startswith("docProps/thumbnail"):
                new.writestr(name, old.read(name))


def _printers(folder: Path) -> None:
    (folder / "log.txt").write_text(_PLAIN, encoding="utf-8")
    (folder / "knot.1").write_text(_ROFF, encoding="utf-8")
    (folder / "article.html").write_text(_ARTICLE, encoding="utf-8")
    steps: list[Callable[[], object]] = [
        lambda: _run(folder, "chromium", "--headless", "--no-sandbox", f"--user-data-dir={folder}/browser",
                     "--no-pdf-header-footer", f"--print-to-pdf={FOLDER / 'chromium-article.pdf'}", "article.html"),
        lambda: _run(folder, "wkhtmltopdf", "--quiet", "letter.html", str(FOLDER / "wkhtmltopdf-letter.pdf")),
        lambda: _run(folder, "enscript", "--quiet", "-p", "log.ps", "log.txt"),
        lambda: _run(folder, "ps2pdf", "log.ps", str(FOLDER / "enscript-log.pdf")),
        lambda: _write(folder / "knot.ps", _run(folder, "groff", "-man", "-Tps", "knot.1")),
        lambda: _run(folder, "ps2pdf", "knot.ps", str(FOLDER / "ghostscript-knot.pdf")),
        lambda: _write(FOLDER / "groff-knot.txt", _run(folder, "groff", "-man", "-Tlatin1", "-P-c", "knot.1")),
        lambda: _run(folder, "gs", "-q", "-dBATCH", "-dNOPAUSE", "-sDEVICE=pdfwrite", "-dPDFSETTINGS=/screen",
                     f"-sOutputFile={FOLDER / 'ghostscript-regatta.pdf'}", str(FOLDER / "libreoffice-regatta.pdf")),
    ]  # fmt: skip
    for step in steps:
        step()


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _run(folder: Path, *command: str) -> bytes:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300).stdout


if __name__ == "__main__":
    main()
