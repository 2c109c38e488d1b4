"""Text of a paragraph of Word as it is shown, whatever its elements are called: nothing that is deleted or hidden."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeVar

from kb_client.files.formats.office.drawings import (
    CHART,
    COMPATIBILITY,
    DIAGRAM,
    RELATION,
    alternative_text,
    chart_text,
    diagram_text,
    is_hidden,
)
from kb_client.files.formats.office.equations import MATH, equation_text
from kb_client.files.formats.office.symbols import in_symbol_font, is_symbol_font, symbol
from kb_client.files.formats.office.word_numbering import WORD, format_number
from kb_client.files.formats.office.word_styles import RunFormat, Styles, value_of
from kb_client.files.formats.text.superscripts import plain_fractions, struck, subscript, superscript

if TYPE_CHECKING:
    from docx.opc.part import Part
    from lxml.etree import _Element

_DELETED: Final = frozenset({f"{WORD}del", f"{WORD}moveFrom"})
_CHARACTERS: Final = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "softHyphen": ""}
_CHECKED: Final = {True: "☒", False: "☐"}
_MAX_DEPTH: Final = 100
_EMU_PER_INCH: Final = 914_400
_LARGE_SQUARE_INCHES: Final = 30
"""Size of a picture that fills a third of a page, and can be a scan."""


@dataclass(slots=True)
class LeftOut:
    """Counts what is in a file and not in its text."""

    comments: int = 0
    objects: int = 0
    parts: int = 0
    """Documents in other formats that Word shows within this one."""
    large_pictures: int = 0


@dataclass(slots=True)
class Notes:
    """Footnotes or endnotes, numbered in the order in which the text refers to them."""

    name: str
    elements: "dict[str, _Element]"
    number_format: str
    count: int = 0


@dataclass(frozen=True, slots=True)
class _RunPiece:
    """Characters of one format."""

    text: str
    position: str = ""
    struck: bool = False


T = TypeVar("T", "_RunPiece", str)

BlockReading = Callable[["Iterable[_Element]"], list[str]]
"""Reads the paragraphs and tables in a text box or a note."""


@dataclass(slots=True)
class ParagraphReader:
    part: "Part"
    styles: Styles
    notes: dict[str, Notes]
    """By the names of the elements that refer to them."""
    left_out: LeftOut
    read_blocks: BlockReading
    below: list[str] = field(default_factory=list)
    """Text boxes and notes of the paragraphs that were read, for the caller to take."""
    is_bold: bool = True
    """False if a text was not bold since the caller set it."""
    _fields: list[bool] = field(default_factory=list)
    """Marks of the fields around the present place: True where the result has begun, which is what is shown."""
    _carried: list[_RunPiece] = field(default_factory=list)
    """Text of a paragraph whose end is deleted, or of a large initial: it goes on in the next one."""

    def read(self, paragraph: "_Element") -> str | None:
        """Return the text of a paragraph (`w:p`); None if it goes on in the next one."""
        style = value_of(paragraph, "pPr", "pStyle") or ""
        pieces = [*self._carried, *self._pieces(paragraph, style, 0)]
        self._carried = []
        # The end of an instruction that is missing must not hide the rest of the file.
        self._fields = [True] * len(self._fields)
        if paragraph.find(f"{WORD}pPr/{WORD}rPr/{WORD}del") is not None or _is_large_initial(paragraph):
            self._carried = pieces
            return None
        return _join(pieces)

    @property
    def _shown(self) -> bool:
        return all(self._fields)

    def _pieces(self, element: "_Element", style: str, depth: int) -> Iterator[_RunPiece]:
        if depth > _MAX_DEPTH:
            return
        for child in element:
            tag = str(child.tag)
            if tag == f"{WORD}r":
                yield from self._run(child, style)
            elif tag.startswith(MATH):
                if self._shown:
                    yield _RunPiece(equation_text(child))
            elif tag == f"{COMPATIBILITY}AlternateContent":
                yield from self._alternative(child, lambda option: self._pieces(option, style, depth + 1))
            elif tag not in _DELETED and not tag.endswith("Pr"):
                yield from self._pieces(child, style, depth + 1)

    def _alternative(self, element: "_Element", read: "Callable[[_Element], Iterable[T]]") -> list[T]:
        """Read the first form of a content that has any: the others are the same for older programs."""
        for option in element:
            before = len(self.below)
            found = list(read(option))
            if any(map(_text_of, found)) or len(self.below) > before:
                return found
        return []

    def _run(self, run: "_Element", style: str) -> Iterator[_RunPiece]:
        form = self.styles.run_format(run.find(f"{WORD}rPr"), style)
        shown = "".join(self._run_texts(run, form))
        if shown:
            self.is_bold &= form.bold or not shown.strip()
            yield _RunPiece(shown, form.position, form.struck)

    def _run_texts(self, run: "_Element", form: RunFormat) -> Iterator[str]:
        for child in run:
            if child.tag == f"{WORD}fldChar":
                yield from self._field(child)
            elif self._shown and not form.hidden:
                yield from self._content(child, form)

    def _content(self, element: "_Element", form: RunFormat) -> Iterator[str]:
        name = str(element.tag).rpartition("}")[2]
        if name in self.notes:
            yield self._note(self.notes[name], element)
        match name:
            case "t":
                yield in_symbol_font(element.text or "", form.font) if is_symbol_font(form.font) else element.text or ""
            case "sym":
                yield symbol(int(element.get(f"{WORD}char") or "0", 16), element.get(f"{WORD}font"))
            case "ruby":
                yield _ruby(element)
            case "AlternateContent":
                yield from self._alternative(element, lambda option: self._run_texts(option, form))
            case "drawing" | "pict" | "object":
                yield from self._drawing(element, 0)
            case _:
                yield _CHARACTERS.get(name, "")

    def _field(self, character: "_Element") -> Iterator[str]:
        match character.get(f"{WORD}fldCharType"):
            case "begin":
                if self._shown:
                    yield _form_field(character)
                self._fields.append(False)
            case "separate" if self._fields:
                self._fields[-1] = True
            case "end" if self._fields:
                self._fields.pop()

    def _note(self, notes: Notes, reference: "_Element") -> str:
        element = notes.elements.get(reference.get(f"{WORD}id", ""))
        if element is None:
            return ""
        number = ""
        if reference.get(f"{WORD}customMarkFollows") not in ("1", "true"):
            notes.count += 1
            number = format_number(notes.count, notes.number_format)
        text = " ".join(self.read_blocks(element))
        if text:
            self.below.append(f"{notes.name} {number}: {text}" if number else f"{notes.name}: {text}")
        return superscript(number)

    def _drawing(self, element: "_Element", depth: int) -> Iterator[str]:
        """Yield what a drawing has in the line, and put its text boxes below the paragraph."""
        if depth > _MAX_DEPTH:
            return
        for child in element:
            tag = str(child.tag)
            name = tag.rpartition("}")[2]
            if name == "AlternateContent":
                yield from self._alternative(child, lambda option: self._drawing(option, depth + 1))
                continue
            if name == "txbxContent":
                self.below += self.read_blocks(child)
                continue
            if name in ("inline", "anchor"):
                properties = next(iter(child.iterfind("{*}docPr")), None)
                if is_hidden(properties):
                    continue
                yield from self._picture(child, properties)
            self._put_below(child, tag)
            yield from self._drawing(child, depth + 1)

    def _picture(self, frame: "_Element", properties: "_Element | None") -> Iterator[str]:
        is_picture = next(frame.iter("{*}blip"), None) is not None
        if text := alternative_text(properties):
            yield f"[picture: {text}]"
        elif is_picture:
            extent = next(iter(frame.iterfind("{*}extent")), None)
            sides = [int(extent.get(side, "0")) / _EMU_PER_INCH for side in ("cx", "cy")] if extent is not None else [0]
            self.left_out.large_pictures += sides[0] * sides[-1] > _LARGE_SQUARE_INCHES

    def _put_below(self, element: "_Element", tag: str) -> None:
        if tag == f"{CHART}chart":
            self._put_part(element.get(f"{RELATION}id"), chart_text)
        elif tag == f"{DIAGRAM}relIds":
            self._put_part(element.get(f"{RELATION}dm"), diagram_text)
        elif tag.endswith("}textpath") and element.get("string"):
            self.below.append(element.get("string"))
        elif tag.endswith("}OLEObject"):
            self.left_out.objects += 1

    def _put_part(self, relation_id: str | None, read: "Callable[[_Element], str]") -> None:
        from lxml import etree

        part = self.part.related_parts.get(relation_id or "")
        if part is None:
            return
        parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
        root = etree.fromstring(part.blob, parser)
        if root is not None and (text := read(root)):
            self.below.append(text)


def _is_large_initial(paragraph: "_Element") -> bool:
    """Return whether a paragraph is the first letter of the next one, over several lines."""
    frame = paragraph.find(f"{WORD}pPr/{WORD}framePr")
    return frame is not None and frame.get(f"{WORD}dropCap", "none") != "none"


def _text_of(found: _RunPiece | str) -> str:
    return (found if isinstance(found, str) else found.text).strip()


def _join(pieces: Iterable[_RunPiece]) -> str:
    """Join pieces of one format first: an exponent can be in several runs."""
    text = ""
    for (position, is_struck), group in groupby(pieces, lambda piece: (piece.position, piece.struck)):
        part = "".join(piece.text for piece in group)
        if position == "superscript" and not part.startswith("^"):
            part = superscript(part, after=text)
        elif position == "subscript":
            part = subscript(part)
        text += struck(part) if is_struck else part
    return plain_fractions(text)


def _ruby(element: "_Element") -> str:
    """Return a word with its reading, which stands above it."""
    base, reading = (
        "".join(text for part in element.iterfind(f"{WORD}{name}") for text in part.itertext(f"{WORD}t"))
        for name in ("rubyBase", "rt")
    )
    return f"{base}({reading})" if reading else base


def _form_field(begin: "_Element") -> str:
    """Return what a field of an old form shows, if it is no text: a box to check, or the chosen one of a list."""
    box, choices = begin.find(f"{WORD}ffData/{WORD}checkBox"), begin.find(f"{WORD}ffData/{WORD}ddList")
    if box is not None:
        checked = box.find(f"{WORD}checked")
        checked = box.find(f"{WORD}default") if checked is None else checked
        return _CHECKED[checked is not None and checked.get(f"{WORD}val", "1") in ("1", "true", "on")]
    if choices is None:
        return ""
    entries = [each.get(f"{WORD}val", "") for each in choices.iterfind(f"{WORD}listEntry")]
    chosen = value_of(choices, "result") or value_of(choices, "default") or "0"
    return entries[int(chosen)] if chosen.isdigit() and int(chosen) < len(entries) else ""
