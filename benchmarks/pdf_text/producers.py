"""Makes PDFs of a known text with the programs that are here: each places lines, spaces and hyphens in its own way."""

import html
import importlib.util
import io
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.pdf_text.sources import SourceBlock

_STYLE: Final = """
@page {
  size: A4; margin: 25mm 20mm;
  @top-left { content: "Manual of the harbour"; } @bottom-center { content: counter(page); }
}
body { font: 10.5pt/1.35 serif; text-align: %s; hyphens: %s; column-count: %d; column-gap: 8mm; }
h1 { column-span: all; font-size: 20pt; text-align: left } h2 { font-size: 13pt; text-align: left }
pre, .address, .contents { text-align: left } td { padding: 0 14pt 0 0 } table { margin: 8pt 0 }
.contents { display: flex }
"""
Make = Callable[[Sequence[SourceBlock]], bytes]


def find_producers() -> tuple[dict[str, Make], list[str]]:
    """Return what makes a PDF, by name, and what is missing here."""
    found: dict[str, Make] = {}
    missing: list[str] = []
    for program, makers in (
        ("groff", {f"groff {name}": _by_groff(columns, adjust) for name, columns, adjust in _GROFF}),
        ("chromium", {f"chromium {name}": _by_chromium(_STYLE % style) for name, style in _WEB.items()}),
        ("soffice", {f"libreoffice {name}": _by_libreoffice(adjust) for name, adjust in _OFFICE.items()}),
    ):
        found.update(makers if shutil.which(program) else {})
        missing += [] if shutil.which(program) else [program]
    for module, makers in (
        ("weasyprint", {f"weasyprint {name}": _by_weasyprint(_STYLE % style) for name, style in _WEB.items()}),
        ("reportlab", {f"reportlab {name}": _by_reportlab(columns, adjust) for name, columns, adjust in _PLAIN}),
        ("fpdf", {f"fpdf2 {name}": _by_fpdf(columns, adjust) for name, columns, adjust in _PLAIN}),
    ):
        found.update(makers if importlib.util.find_spec(module) else {})
        missing += [] if importlib.util.find_spec(module) else [module]
    return found, missing


_PLAIN: Final = (("ragged", 1, "left"), ("justified", 1, "justify"), ("two columns", 2, "justify"))
_GROFF: Final = (("ragged", 1, "l"), ("justified", 1, "b"), ("two columns", 2, "b"))
_WEB: Final[Mapping[str, tuple[str, str, int]]] = {
    "ragged": ("left", "none", 1),
    "justified and hyphenated": ("justify", "auto", 1),
    "two columns": ("justify", "auto", 2),
}
_OFFICE: Final = {"ragged": "left", "justified": "justify"}


def _page_of(blocks: Sequence[SourceBlock], style: str) -> str:
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><style>{style}</style><body>"]
    kinds = [block.kind for block in blocks]
    for at, block in enumerate(blocks):
        before, after = kinds[at - 1] if at else "", kinds[at + 1] if at + 1 < len(kinds) else ""
        lines = [html.escape(line, quote=False) for line in block.lines]
        match block.kind:
            case "title" | "heading":
                tag = "h1" if block.kind == "title" else "h2"
                parts.append(f"<{tag}>{lines[0]}</{tag}>")
            case "row":
                cells = "".join(f"<td>{cell}</td>" for cell in lines)
                parts.append(
                    f"{'<table>' if before != 'row' else ''}<tr>{cells}</tr>{'</table>' if after != 'row' else ''}"
                )
            case "item":
                parts.append(
                    f"{'<ul>' if before != 'item' else ''}<li>{lines[0]}</li>{'</ul>' if after != 'item' else ''}"
                )
            case "code":
                parts.append(f"{'<pre>' if before != 'code' else ''}{lines[0]}\n{'</pre>' if after != 'code' else ''}")
            case "address":
                parts.append(f"<div class=address>{lines[0]}</div>")
            case "contents":
                parts.append(f"<div class=contents>{lines[0]} {'. ' * 12}{lines[1]}</div>")
            case _:
                parts.append(f"<p>{lines[0]}</p>")
    return "".join(parts)


def _by_chromium(style: str) -> Make:
    def make(blocks: Sequence[SourceBlock]) -> bytes:
        return _run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--print-to-pdf=made.pdf", "page.html"],
            _page_of(blocks, style),
        )

    return make


def _by_libreoffice(adjust: str) -> Make:
    def make(blocks: Sequence[SourceBlock]) -> bytes:
        page = _page_of(blocks, f"p, li {{ text-align: {adjust} }}")
        convert = ["--convert-to", "pdf:writer_web_pdf_Export", "page.html"]
        return _run(["soffice", "--headless", "-env:UserInstallation=file:///tmp/pdf-text-office", *convert], page)

    return make


def _by_weasyprint(style: str) -> Make:
    def make(blocks: Sequence[SourceBlock]) -> bytes:
        weasyprint: Any = importlib.import_module("weasyprint")
        made: bytes = weasyprint.HTML(string=_page_of(blocks, style)).write_pdf()
        return made

    return make


def _run(command: Sequence[str], page: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "page.html").write_text(page)
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)  # noqa: S603  # fixed programs
        return next(Path(folder).glob("*.pdf")).read_bytes()


def _by_groff(columns: int, adjust: str) -> Make:
    def make(blocks: Sequence[SourceBlock]) -> bytes:
        source = [".nr PS 10", f".ad {adjust}", ".hy 1", ".ds LH Manual of the harbour", ".ds CH", ".ds CF %"]
        started = False
        for block in blocks:
            lines = [
                line.replace("\\", "\\e").replace("-", "\\-" if block.kind == "code" else "-") for line in block.lines
            ]
            lines = [f"\\&{line}" if line.startswith((".", "'")) else line for line in lines]
            match block.kind:
                case "title":
                    source += [".TL", lines[0]]
                case "heading":
                    if columns == 2 and not started:
                        source += [".2C"]
                    started = True
                    source += [".SH", lines[0], f".ad {adjust}"]
                case "item":
                    source += [".IP \\(bu 2", lines[0]]
                case "code" | "address" | "row" | "contents":
                    font = ".ft C" if block.kind == "code" else ".ft R"
                    between = {"row": " " * 12, "contents": " . . . . . . . . "}.get(block.kind, "")
                    source += [".nf", font, between.join(lines), ".ft R", ".fi"]
                case _:
                    source += [".LP", f".ad {adjust}", lines[0]]
        made = subprocess.run(
            ["groff", "-Tpdf", "-ms"],  # noqa: S607  # the one of this machine is meant
            input="\n".join(source).encode(),
            capture_output=True,
            check=True,
            timeout=120,
        )
        return made.stdout

    return make


def _by_reportlab(columns: int, adjust: str) -> Make:
    def make(blocks: Sequence[SourceBlock]) -> bytes:
        platypus: Any = importlib.import_module("reportlab.platypus")
        styles: Any = importlib.import_module("reportlab.lib.styles").getSampleStyleSheet()
        styles["Normal"].alignment = 4 if adjust == "justify" else 0
        buffer = io.BytesIO()
        document = platypus.BaseDocTemplate(buffer, title="Manual")
        width = (document.width - 20 * (columns - 1)) / columns
        frames = [
            platypus.Frame(document.leftMargin + at * (width + 20), document.bottomMargin, width, document.height)
            for at in range(columns)
        ]

        def decorate(canvas: Any, template: Any) -> None:
            canvas.setFont("Times-Roman", 9)
            canvas.drawString(72, 800, "Manual of the harbour")
            canvas.drawCentredString(297, 30, f"Page {template.page}")

        document.addPageTemplates([platypus.PageTemplate(frames=frames, onPage=decorate)])
        document.build([flowable for block in blocks for flowable in _flowables(block, platypus, styles)])
        return buffer.getvalue()

    return make


def _flowables(block: SourceBlock, platypus: Any, styles: Any) -> list[Any]:
    text = html.escape(block.lines[0], quote=False)
    match block.kind:
        case "row":
            return [platypus.Table([list(block.lines)], colWidths=[60] * len(block.lines), hAlign="LEFT")]
        case "code":
            return [platypus.Preformatted(block.lines[0], styles["Code"])]
        case "item":
            return [platypus.Paragraph(text, styles["Bullet"], bulletText="\u2022")]
        case "title" | "heading" | "contents" | "address":
            style = {"title": "Title", "heading": "Heading2"}.get(block.kind, "BodyText")
            return [platypus.Paragraph(f" {'. ' * 12}".join([text, *block.lines[1:]]), styles[style])]
    return [platypus.Paragraph(text, styles["Normal"]), platypus.Spacer(1, 8)]


def _by_fpdf(columns: int, adjust: str) -> Make:
    def make(blocks: Sequence[SourceBlock]) -> bytes:
        fpdf: Any = importlib.import_module("fpdf")

        class Manual(fpdf.FPDF):  # type: ignore[misc]  # fpdf2 is not installed in each environment
            def header(self) -> None:
                self.set_font("Times", size=9)
                self.cell(0, 8, "Manual of the harbour", new_x="LMARGIN", new_y="NEXT")

            def footer(self) -> None:
                self.set_y(-15)
                self.set_font("Times", size=9)
                self.cell(0, 8, f"{self.page_no()}", align="C")

        document = Manual()
        document.add_page()
        document.set_font("Times", size=11)
        with document.text_columns(ncols=columns, gutter=8, text_align=adjust.upper()) as column:
            for block in blocks:
                size = {"title": 18, "heading": 13}.get(block.kind, 11)
                document.set_font("Courier" if block.kind == "code" else "Times", size=size)
                between = {"row": " " * 14, "contents": " . . . . . . . . "}.get(block.kind, "")
                is_short = block.kind not in ("paragraph", "item")
                with column.paragraph(text_align="LEFT" if is_short else adjust.upper(), bottom_margin=2) as paragraph:
                    paragraph.write(between.join(block.lines))
        return bytes(document.output())

    return make
