"""Reads PowerPoint files: a page for each visible slide, with its tables, charts and notes."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kb_client.files.extraction import Extraction, ExtractOptions, counted, join_pages
from kb_client.files.formats.office.archive import open_archive
from kb_client.files.formats.office.drawings import (
    CHART,
    COMPATIBILITY,
    DIAGRAM,
    DRAWING,
    RELATION,
    alternative_text,
    chart_text,
    diagram_text,
    is_hidden,
    paragraph_text,
    shape_text,
)
from kb_client.files.formats.office.word import created_at
from kb_client.files.formats.office.word_numbering import format_number
from kb_client.files.formats.tables.rows import BoldRow, Merged, rows_to_lines
from kb_client.files.formats.text.literal_lines import keep_literal
from kb_client.files.titles import own_title

if TYPE_CHECKING:
    from lxml.etree import _Element
    from pptx.opc.package import Part
    from pptx.slide import Slide

_MAX_NESTING: Final = 20
_FEW_CHARACTERS: Final = 40
_COLUMNS_OF_LABELS: Final = 2
_NUMBER_OF_SLIDE: Final = "sldNum"
_NUMBERS: Final = re.compile(r"(arabic|alphaLc|alphaUc|romanLc|romanUc)(Period|ParenR|ParenBoth|Plain)")
_DIGITS: Final = {
    "arabic": "decimal",
    "alphaLc": "lowerLetter",
    "alphaUc": "upperLetter",
    "romanLc": "lowerRoman",
    "romanUc": "upperRoman",
}
_MARKS: Final = {"Period": "{}.", "ParenR": "{})", "ParenBoth": "({})", "Plain": "{}"}


def extract(data: bytes, options: ExtractOptions) -> Extraction:
    """Return the text of the visible slides, each with its number as the page."""
    import pptx

    presentation = pptx.Presentation(open_archive(data, options))
    slides = [(number, slide) for number, slide in enumerate(presentation.slides, 1)]
    visible = [(number, slide) for number, slide in slides if slide._element.get("show") != "0"]  # noqa: SLF001  # public nowhere
    area = (presentation.slide_width or 0) * (presentation.slide_height or 0)
    readers = [(number, _SlideReader(slide, area)) for number, slide in visible]
    text, pages = join_pages([(number, reader.text()) for number, reader in readers])
    return Extraction(
        text,
        title=own_title(presentation.core_properties.title)
        or next(filter(None, (own_title(each.heading) for _, each in readers)), None),
        date=created_at(presentation.core_properties),
        pages=pages,
        warnings=_warnings(len(slides) - len(visible), [reader for _, reader in readers]),
    )


def _warnings(hidden: int, readers: "list[_SlideReader]") -> tuple[str, ...]:
    pictures = sum(reader.is_picture for reader in readers)
    objects = sum(reader.objects for reader in readers)
    comments = sum(reader.count_comments() for reader in readers)
    return tuple(
        f"{counted(count, noun)} {what.format('was' if count == 1 else 'were')}"
        for count, noun, what in (
            (hidden, "hidden slide", "{} left out; show what should be found, and save"),
            (comments, "comment", "{} left out; write what should be found into the slides"),
            (pictures, "slide", "with a large picture and hardly any text {} not read; push them as a PDF with --ocr"),
            (objects, "embedded object", "{} not read; save each as a file of its own"),
        )
        if count
    )


@dataclass(slots=True)
class _SlideReader:
    slide: "Slide"
    area: int
    """Size of the slide."""
    objects: int = 0
    is_picture: bool = False

    @property
    def heading(self) -> str:
        title = self.slide.shapes.title
        return "" if title is None else " ".join(shape_text(title._element).split())  # noqa: SLF001  # public nowhere

    def text(self) -> str:
        _choose_alternatives(self.slide._element)  # noqa: SLF001  # public nowhere
        heading, title = self.heading, self.slide.shapes.title
        title_id = None if title is None else title.shape_id
        blocks = [f"## {heading}"] if heading else []
        blocks += [block for shape_id, block in self._shapes(self.slide.shapes) if shape_id != title_id]
        self.is_picture = self.is_picture and not heading and sum(map(len, blocks)) < _FEW_CHARACTERS
        if self.slide.has_notes_slide and (frame := self.slide.notes_slide.notes_text_frame) is not None:
            notes = shape_text(frame._txBody)  # noqa: SLF001  # public nowhere
            blocks += ["Notes: " + keep_literal(notes)] if notes else []
        return "\n\n".join(blocks)

    def count_comments(self) -> int:
        parts = (each for each in self.slide.part.rels.values() if each.reltype.endswith("/comments"))
        roots = (_root(each.target_part) for each in parts if not each.is_external)
        return sum(len(root.findall("{*}cm")) for root in roots if root is not None)

    def _shapes(self, shapes: Iterable[Any], depth: int = 0) -> Iterator[tuple[int, str]]:
        """Yield id and text of each shape in reading order, which is from top to bottom and from left to right."""
        for shape in sorted(shapes, key=lambda each: (each.top or 0, each.left or 0)):
            properties = next(shape._element.iter("{*}cNvPr"), None)  # noqa: SLF001  # public nowhere
            if is_hidden(properties) or _is_number_of_slide(shape):
                continue
            if hasattr(shape, "shapes"):
                if depth < _MAX_NESTING:
                    yield from self._shapes(shape.shapes, depth + 1)
                continue
            yield from ((shape.shape_id, block) for block in self._blocks(shape) if block)
            if text := alternative_text(properties):
                yield shape.shape_id, f"Picture: {text}"

    def _blocks(self, shape: Any) -> Iterator[str]:
        element = shape._element  # noqa: SLF001  # public nowhere
        if getattr(shape, "has_table", False):
            yield "\n".join(rows_to_lines(_rows(element)))
        elif shape.has_text_frame:
            yield _paragraphs(element)
        for tag, attribute, read in (
            (f"{CHART}chart", f"{RELATION}id", chart_text),
            (f"{DIAGRAM}relIds", f"{RELATION}dm", diagram_text),
        ):
            for reference in element.iter(tag):
                yield self._related(reference.get(attribute), read)
        self.objects += next(element.iter("{*}oleObj"), None) is not None
        if next(element.iter("{*}blip"), None) is not None:
            self.is_picture |= 2 * (shape.width or 0) * (shape.height or 0) > self.area

    def _related(self, relation_id: str | None, read: "Callable[[_Element], str]") -> str:
        relation = self.slide.part.rels.get(relation_id or "")
        root = None if relation is None or relation.is_external else _root(relation.target_part)
        return "" if root is None else keep_literal(read(root))


def _root(part: "Part") -> "_Element | None":
    from lxml import etree

    return etree.fromstring(part.blob, etree.XMLParser(resolve_entities=False, no_network=True, recover=True))


def _choose_alternatives(slide: "_Element") -> None:
    """Put the first form of each content that has several in its place: the others are for older programs."""
    for element in list(slide.iter(f"{COMPATIBILITY}AlternateContent")):
        parent = element.getparent()
        if parent is None or parent.tag == f"{DRAWING}p":
            # An equation, which is read as it is.
            continue
        options = [option for option in element if any(str(child.tag).startswith("{") for child in option)]
        for child in list(options[0]) if options else ():
            element.addprevious(child)
        parent.remove(element)


def _is_number_of_slide(shape: Any) -> bool:
    placeholder = next(shape._element.iter("{*}ph"), None)  # noqa: SLF001  # public nowhere
    return placeholder is not None and placeholder.get("type") == _NUMBER_OF_SLIDE


def _paragraphs(body: "_Element") -> str:
    """Return the paragraphs of a shape, with the numbers of lists."""
    lines: list[str] = []
    counts: dict[tuple[int, str], int] = {}
    for paragraph in body.iter(f"{DRAWING}p"):
        text = paragraph_text(paragraph).strip().replace("\v", "\n")
        properties = paragraph.find(f"{DRAWING}pPr")
        level = int(properties.get("lvl", "0")) if properties is not None else 0
        numbers: dict[str, str] = {}
        if properties is not None and (found := properties.find(f"{DRAWING}buAutoNum")) is not None:
            numbers = dict(found.attrib)
        kind = numbers.get("type", "")
        # A list goes on over lists within it only.
        counts = {(at, of): count for (at, of), count in counts.items() if at < level or (at, of) == (level, kind)}
        if not text:
            continue
        if kind:
            counts[level, kind] = counts.get((level, kind), int(numbers.get("startAt", "1")) - 1) + 1
            text = f"{_label(counts[level, kind], kind)} {text}"
        lines.append("  " * level + text)
    return keep_literal("\n".join(lines))


def _label(number: int, kind: str) -> str:
    found = _NUMBERS.fullmatch(kind)
    return _MARKS[found[2]].format(format_number(number, _DIGITS[found[1]])) if found else f"{number}."


def _rows(frame: "_Element") -> Iterator[list[str] | BoldRow]:
    table = next(frame.iter(f"{DRAWING}tbl"))
    look = table.find(f"{DRAWING}tblPr")
    first_row_stands_out = look is not None and look.get("firstRow") == "1"
    above: list[str] = []
    for at, row in enumerate(table.iterfind(f"{DRAWING}tr")):
        texts: list[str] = []
        for column, cell in enumerate(row.iterfind(f"{DRAWING}tc")):
            text = shape_text(cell)
            if cell.get("vMerge") == "1" and column < len(above):
                text = above[column]
            elif cell.get("hMerge") == "1" and texts:
                text = Merged(texts[-1])
            texts.append(text)
        above = texts
        # Of two columns, which are often labels with their values, the style of a new table says nothing.
        stands_out = _is_bold(row) or (at == 0 and first_row_stands_out and len(texts) > _COLUMNS_OF_LABELS)
        yield BoldRow(texts) if stands_out else texts


def _is_bold(row: "_Element") -> bool:
    runs = [run for run in row.iter(f"{DRAWING}r") if (run.findtext(f"{DRAWING}t") or "").strip()]
    forms = [run.find(f"{DRAWING}rPr") for run in runs]
    return bool(forms) and all(form is not None and form.get("b") == "1" for form in forms)
