"""Reads Word files as Markdown: what is shown of paragraphs, lists, tables, text boxes and notes, in their order."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from kb_client.files.extraction import Extraction, ExtractOptions, counted
from kb_client.files.formats.office.archive import open_archive
from kb_client.files.formats.office.drawings import COMPATIBILITY
from kb_client.files.formats.office.equations import MATH, equation_text
from kb_client.files.formats.office.word_numbering import WORD, Numbering
from kb_client.files.formats.office.word_paragraph import LeftOut, Notes, ParagraphReader
from kb_client.files.formats.office.word_styles import Styles, value_of
from kb_client.files.formats.tables.rows import BoldRow, HeaderRow, Merged, rows_to_lines
from kb_client.files.formats.text.literal_lines import keep_literal
from kb_client.files.titles import own_title

if TYPE_CHECKING:
    from docx.document import Document
    from docx.opc.coreprops import CoreProperties
    from docx.opc.part import Part
    from lxml.etree import _Element

_RELATION: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_MAX_NESTING: Final = 20
_MAX_REPEATED_CHARACTERS: Final = 200
"""Length of a merged text that is repeated in each row. A longer one is no label."""
_LAYOUT_CHARACTERS: Final = 1_500
_LAYOUT_BLOCKS: Final = 4
_DEEPEST_HEADING: Final = 6
_BULLET: Final = "-"
_ITEM: Final = re.compile(r"\s*(?:- |\(?(?:\d{1,3}|[a-z])[.)] )")
_LONGEST_ITEM: Final = 300
_PAGE_NUMBER: Final = re.compile(
    r"(?:\W|\d|\b(?:page|pages|seite|seiten|of|von|pagina|página|de|di|sur|strona|z)\b)*", re.IGNORECASE
)


def extract(data: bytes, options: ExtractOptions) -> Extraction:
    """Return what is shown of the document. Deleted and hidden text and comments are left out."""
    import docx

    document = docx.Document(open_archive(data, options))
    reader = _WordReader.from_document(document)
    header, footer = reader.headers_and_footers()
    body = reader.read(document.element.body)
    blocks = [*header, *body, *footer]
    return Extraction(
        _join(blocks),
        title=own_title(document.core_properties.title) or _first_heading(body),
        date=created_at(document.core_properties),
        warnings=_warnings(reader.left_out),
    )


def created_at(properties: "CoreProperties") -> datetime | None:
    """Return when the file was last saved, or made."""
    for name in ("modified", "created"):
        try:
            date = getattr(properties, name)
        except ValueError:
            continue
        if isinstance(date, datetime):
            return date if date.tzinfo else date.replace(tzinfo=UTC)
    return None


@dataclass(slots=True)
class _WordReader:
    document: "Document"
    styles: Styles
    numbering: Numbering
    paragraphs: ParagraphReader
    left_out: LeftOut
    depth: int = 0

    @classmethod
    def from_document(cls, document: "Document") -> "_WordReader":
        parts = {relation.reltype.rpartition("/")[2]: relation for relation in document.part.rels.values()}
        roots = {
            kind: _root(relation.target_part)
            for kind, relation in parts.items()
            if not relation.is_external
            and kind in ("styles", "numbering", "footnotes", "endnotes", "comments", "settings")
        }
        styles, left_out = Styles(roots.get("styles")), LeftOut()
        settings = roots.get("settings")
        notes = {
            "footnoteReference": _notes("Footnote", roots.get("footnotes"), settings, number_format="decimal"),
            "endnoteReference": _notes("Endnote", roots.get("endnotes"), settings, number_format="lowerRoman"),
        }
        comments = roots.get("comments")
        left_out.comments = 0 if comments is None else len(comments.findall(f"{WORD}comment"))
        paragraphs = ParagraphReader(document.part, styles, notes, left_out, read_blocks=list)
        reader = cls(document, styles, Numbering(roots.get("numbering"), styles.numbers()), paragraphs, left_out)
        paragraphs.read_blocks = reader.read
        return reader

    def read(self, container: "Iterable[_Element]") -> list[str]:
        """Return the paragraphs and tables in an element."""
        if self.depth > _MAX_NESTING:
            return []
        self.depth += 1
        try:
            return list(self._blocks(container))
        finally:
            self.depth -= 1

    def headers_and_footers(self) -> tuple[list[str], list[str]]:
        """Return the texts at the top and at the bottom of the pages, each once and without the numbers of pages."""
        settings = self.document.settings.element
        even = settings.find(f"{WORD}evenAndOddHeaders") is not None
        found: dict[str, dict[str, None]] = {"header": {}, "footer": {}}
        for section in self.document.element.body.iter(f"{WORD}sectPr"):
            shown = {
                "default",
                *(["even"] if even else []),
                *(["first"] if section.find(f"{WORD}titlePg") is not None else []),
            }
            for kind, texts in found.items():
                texts.update(dict.fromkeys(self._texts_of_pages(section, kind, shown)))
        self.paragraphs.part = self.document.part
        return list(found["header"]), list(found["footer"])

    def _texts_of_pages(self, section: "_Element", kind: str, shown: set[str]) -> Iterator[str]:
        for reference in section.iterfind(f"{WORD}{kind}Reference"):
            part = self.document.part.related_parts.get(reference.get(f"{_RELATION}id", ""))
            if part is not None and reference.get(f"{WORD}type", "default") in shown:
                self.paragraphs.part = part
                yield from (block for block in self.read(part.element) if not _PAGE_NUMBER.fullmatch(block))

    def _blocks(self, container: "Iterable[_Element]") -> Iterator[str]:
        for element in container:
            tag = str(element.tag)
            if tag == f"{WORD}p":
                yield from self._paragraph(element)
            elif tag == f"{WORD}tbl":
                yield from self._table(element)
            elif tag == f"{WORD}altChunk":
                self.left_out.parts += 1
            elif tag.startswith(MATH):
                yield equation_text(element)
            elif tag == f"{COMPATIBILITY}AlternateContent":
                yield from next(filter(None, map(self.read, element)), [])
            elif tag not in (f"{WORD}del", f"{WORD}moveFrom") and not tag.endswith("Pr"):
                yield from self._blocks(element)

    def _paragraph(self, element: "_Element") -> Iterator[str]:
        text = self.paragraphs.read(element)
        below, self.paragraphs.below = self.paragraphs.below, []
        if text is not None and (block := self._block(element, text.strip())):
            yield block
        yield from map(keep_literal, below)

    def _block(self, element: "_Element", text: str) -> str:
        style = value_of(element, "pPr", "pStyle") or ""
        label, level = self._label(element, style)
        if not text:
            return ""
        name = self.styles.name(style)
        heading = 1 if name == "Title" else self.styles.heading_level(style)
        if heading:
            number = "" if label == _BULLET else label
            return " ".join(["#" * min(heading, _DEEPEST_HEADING), *number.split(), *text.split()])
        if not label and name.lower().startswith(("list bullet", "list number")):
            label = _BULLET
        return f"{'  ' * level}{label} {keep_literal(text)}" if label else keep_literal(text)

    def _label(self, element: "_Element", style: str) -> tuple[str, int]:
        """Return the automatic number of a paragraph, or a hyphen for a bullet, and the level in its list."""
        number, of_style = self.styles.numbering(style)
        level = value_of(element, "pPr", "numPr", "ilvl") or of_style
        number = value_of(element, "pPr", "numPr", "numId") or number
        if not level:
            level = str(self.numbering.level_of_style(number, style) or 0)
        label = self.numbering.next_label(number, int(level)) if level.isdigit() else None
        return ("", 0) if label is None else (label.text or _BULLET, label.level)

    def _table(self, table: "_Element") -> Iterator[str]:
        rows = [_TableRow.from_element(row) for row in _rows(table)]
        if all(len(row.cells) <= 1 for row in rows):
            yield from (block for row in rows for cell in row.cells for block in self.read(cell))
            return
        emphasized = self._has_bold_first_row(table)
        texts: list[list[str]] = []
        contents: list[tuple[list[list[str]], bool]] = []
        for at, row in enumerate(rows):
            self.paragraphs.is_bold = True
            cells = [self.read(cell) for cell in row.cells]
            texts.append(_spread(row, [" ".join(blocks) for blocks in cells], texts[-1] if texts else []))
            contents.append((cells, self.paragraphs.is_bold or (emphasized and at == 0)))
        if any(_is_layout(blocks) for cells, _ in contents for blocks in cells):
            yield from (block for cells, _ in contents for blocks in cells for block in blocks)
            return
        heads = next((at for at, row in enumerate(rows) if not row.is_header), 0)
        kinds = [HeaderRow if at < heads else BoldRow if bold else list for at, (_, bold) in enumerate(contents)]
        if lines := "\n".join(rows_to_lines(kind(row) for kind, row in zip(kinds, texts, strict=True))):
            yield lines

    def _has_bold_first_row(self, table: "_Element") -> bool:
        look = table.find(f"{WORD}tblPr/{WORD}tblLook")
        style = value_of(table, "tblPr", "tblStyle") or ""
        shown = look is not None and (
            look.get(f"{WORD}firstRow") == "1" or bool(int(look.get(f"{WORD}val") or "0", 16) & 0x20)
        )
        return shown and self.styles.has_bold_first_row(style)


@dataclass(slots=True)
class _TableRow:
    cells: "list[_Element]" = field(default_factory=list)
    spans: list[int] = field(default_factory=list)
    continued: list[bool] = field(default_factory=list)
    """Mark of each cell that is merged with the one above it."""
    before: int = 0
    """Number of columns that the row leaves out."""
    is_header: bool = False

    @classmethod
    def from_element(cls, row: "_Element") -> "_TableRow":
        properties = row.find(f"{WORD}trPr")
        made = cls()
        if properties is not None:
            made.before = _count(value_of(properties, "gridBefore"))
            header = properties.find(f"{WORD}tblHeader")
            made.is_header = header is not None and header.get(f"{WORD}val", "1") not in ("0", "false", "off")
        for cell in _cells(row):
            merge = cell.find(f"{WORD}tcPr/{WORD}vMerge")
            made.cells.append(cell)
            made.spans.append(max(1, _count(value_of(cell, "tcPr", "gridSpan"))))
            made.continued.append(merge is not None and merge.get(f"{WORD}val", "continue") == "continue")
        return made


def _count(value: str | None) -> int:
    return min(int(value), 1_000) if value and value.isdigit() else 0


def _rows(table: "_Element") -> "Iterator[_Element]":
    """Yield the rows that are shown, also those in content controls."""
    for element in table:
        if element.tag == f"{WORD}tr":
            properties = element.find(f"{WORD}trPr")
            hidden = properties is not None and any(
                properties.find(f"{WORD}{name}") is not None for name in ("del", "hidden")
            )
            if not hidden:
                yield element
        elif not str(element.tag).endswith("Pr"):
            yield from _rows(element)


def _cells(row: "_Element") -> "Iterator[_Element]":
    for element in row:
        if element.tag == f"{WORD}tc":
            if element.find(f"{WORD}tcPr/{WORD}cellDel") is None:
                yield element
        elif not str(element.tag).endswith("Pr"):
            yield from _cells(element)


def _spread(row: _TableRow, texts: Sequence[str], above: Sequence[str]) -> list[str]:
    """Return a text for each column: those of merged cells in all of theirs, and in all of their rows."""
    spread = [""] * row.before
    others = any(text for text, continued in zip(texts, row.continued, strict=True) if not continued)
    for text, span, continued in zip(texts, row.spans, row.continued, strict=True):
        label = above[len(spread)] if continued and not text and len(spread) < len(above) else text
        shown = str(label) if not continued or (others and len(label) <= _MAX_REPEATED_CHARACTERS) else text
        spread += [shown, *([Merged(shown)] * (span - 1) if shown else [""] * (span - 1))]
    return spread


def _is_layout(blocks: Sequence[str]) -> bool:
    """Return whether a cell holds a part of the page rather than a value."""
    return len(blocks) >= _LAYOUT_BLOCKS and sum(map(len, blocks)) > _LAYOUT_CHARACTERS


def _root(part: "Part") -> "_Element | None":
    from lxml import etree

    element: Any = getattr(part, "element", None)
    if element is not None:
        return element
    return etree.fromstring(part.blob, etree.XMLParser(resolve_entities=False, no_network=True, recover=True))


def _notes(name: str, root: "_Element | None", settings: "_Element | None", *, number_format: str) -> Notes:
    kind = name.lower()
    elements = {
        note.get(f"{WORD}id", ""): note
        for note in (() if root is None else root.iterfind(f"{WORD}{kind}"))
        if note.get(f"{WORD}type", "normal") == "normal"
    }
    chosen = None if settings is None else value_of(settings, f"{kind}Pr", "numFmt")
    return Notes(name, elements, chosen or number_format)


def _warnings(left_out: LeftOut) -> tuple[str, ...]:
    return tuple(
        f"{counted(count, noun)} {'was' if count == 1 else 'were'} {what}"
        for count, noun, what in (
            (left_out.comments, "comment", "left out; write what should be found into the text"),
            (left_out.objects, "embedded object", "not read; save each as a file of its own"),
            (left_out.parts, "embedded document", "not read; open and save the file once in Word"),
            (
                left_out.large_pictures,
                "large picture",
                "not read; if they hold text, push the file as a PDF with --ocr",
            ),
        )
        if count
    )


def _join(blocks: list[str]) -> str:
    """Join blocks by empty lines, and the items of a list by line ends."""
    ends = ["\n" if _is_item(block) and _is_item(after) else "\n\n" for block, after in pairwise(blocks)]
    return "".join(block + end for block, end in zip(blocks, [*ends, ""], strict=True)) if blocks else ""


def _is_item(block: str) -> bool:
    return len(block) <= _LONGEST_ITEM and _ITEM.match(block) is not None


def _first_heading(blocks: list[str]) -> str | None:
    return next((block.lstrip("# ") for block in blocks if block.startswith(("# ", "## "))), None)
