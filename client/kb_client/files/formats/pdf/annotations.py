"""Reads what annotations draw on a page of a PDF: values of form fields, notes that were typed on it, stamps."""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pypdfium2 import raw

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage, PdfTextPage

_NOT_SEEN: Final = raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW
_PASSWORD: Final = 1 << 13
_WITHOUT_TEXT: Final = frozenset({raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP})
_COMMENTS: Final = frozenset(
    {
        raw.FPDF_ANNOT_TEXT,
        raw.FPDF_ANNOT_HIGHLIGHT,
        raw.FPDF_ANNOT_UNDERLINE,
        raw.FPDF_ANNOT_SQUIGGLY,
        raw.FPDF_ANNOT_STRIKEOUT,
        raw.FPDF_ANNOT_CARET,
    }
)
_LINE_HEIGHT: Final = 16.0
"""Points above a field within which its label may stand."""
_MAX_LABEL_CHARACTERS: Final = 120


@dataclass(frozen=True, slots=True)
class Annotations:
    lines: list[str] = field(default_factory=list)
    """Texts that are seen on the page beside its own, from top to bottom."""
    comments: int = 0
    """Number of comments, which a reader sees after a click."""


@dataclass(frozen=True, slots=True)
class _Field:
    left: float
    bottom: float
    right: float
    top: float
    value: str
    name: str
    is_switch: bool

    def beside(self, other: "_Field") -> bool:
        """Return whether both stand in one row."""
        return (
            self.bottom < (other.bottom + other.top) / 2 < self.top
            or other.bottom < (self.bottom + self.top) / 2 < other.top
        )


def read_annotations(document: "PdfDocument", page: "PdfPage", number: int) -> Annotations:
    """Return what the annotations of a page show. Some become a part of the page, which then has to be opened again."""
    count = raw.FPDFPage_GetAnnotCount(page)
    if count <= 0:
        return Annotations()
    text_page = page.get_textpage()
    try:
        before = text_page.get_text_bounded()
        fields = [each for index in range(count) for each in _read_field(page, index)]
        lines = [line for each in sorted(fields, key=_position) if (line := _describe(each, fields, text_page))]
    finally:
        text_page.close()
    typed = [text for index in range(count) for text in _read_typed(page, index)]
    comments = sum(_is_comment(page, index) for index in range(count))
    if _has_others(page, count):
        drawn = _read_drawn(document, page, number=number, before=before)
        lines += drawn.splitlines()
    lines += [text for text in typed if "".join(text.split()) not in "".join("".join(lines).split())]
    return Annotations([line for line in lines if line.strip()], comments)


def _position(each: _Field) -> tuple[float, float]:
    return -each.top, each.left


class _Annotation:
    """Opens an annotation for the time of a `with`."""

    def __init__(self, page: "PdfPage", index: int) -> None:
        self._raw = raw.FPDFPage_GetAnnot(page, index)

    def __enter__(self) -> Any:
        return self._raw

    def __exit__(self, *_: object) -> None:
        if self._raw:
            raw.FPDFPage_CloseAnnot(self._raw)


def _is_seen(annotation: Any) -> bool:
    return bool(annotation) and not raw.FPDFAnnot_GetFlags(annotation) & _NOT_SEEN


def _read_field(page: "PdfPage", index: int) -> Iterator[_Field]:
    form = page.formenv
    with _Annotation(page, index) as annotation:
        if form is None or not _is_seen(annotation) or raw.FPDFAnnot_GetSubtype(annotation) != raw.FPDF_ANNOT_WIDGET:
            return
        kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
        rectangle = raw.FS_RECTF()
        if not raw.FPDFAnnot_GetRect(annotation, rectangle):
            return
        is_switch = kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
        yield _Field(
            left=rectangle.left,
            bottom=min(rectangle.bottom, rectangle.top),
            right=rectangle.right,
            top=max(rectangle.bottom, rectangle.top),
            value=_read_value(form, annotation, kind),
            name=_read_text(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation),
            is_switch=is_switch,
        )


def _read_value(form: Any, annotation: Any, kind: int) -> str:
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        return "[x]" if raw.FPDFAnnot_IsChecked(form, annotation) else ""
    if kind in (raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        chosen = [
            _read_text(raw.FPDFAnnot_GetOptionLabel, form, annotation, option)
            for option in range(max(raw.FPDFAnnot_GetOptionCount(form, annotation), 0))
            if raw.FPDFAnnot_IsOptionSelected(form, annotation, option)
        ]
        return ", ".join(filter(None, chosen)) or _read_text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    if kind != raw.FPDF_FORMFIELD_TEXTFIELD or raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return ""
    return _read_text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)


def _describe(each: _Field, fields: list[_Field], text_page: "PdfTextPage") -> str:
    """Return a field with its label, which stands before it, above it, or after a box that can be ticked."""
    if not each.value:
        return ""
    row = [other for other in fields if other is not each and each.beside(other)]
    begin = max((other.right for other in row if other.right <= each.left + 1), default=0.0)
    end = min((other.left for other in row if other.left >= each.right - 1), default=each.right + 1_000)
    before = _label(text_page, (begin, each.bottom, each.left, each.top), last=True)
    if each.is_switch:
        after = _label(text_page, (each.right, each.bottom, end, each.top), last=False)
        return f"{each.value} {after or each.name or before}".strip()
    above = "" if before else _label(text_page, (each.left, each.top, each.right, each.top + _LINE_HEIGHT), last=True)
    label = before or above or " ".join(each.name.split())
    value = each.value.strip().replace("\r\n", "\n").replace("\r", "\n")
    return f"{label.rstrip(' :')}: {value}" if label else value


def _label(text_page: "PdfTextPage", box: tuple[float, float, float, float], *, last: bool) -> str:
    """Return the first or the last line within a box, which is given by its left, bottom, right and top."""
    if box[0] >= box[2]:
        return ""
    lines = text_page.get_text_bounded(*box).split("\n")
    words = [" ".join(line.split()) for line in lines]
    filled = [line for line in words if any(map(str.isalnum, line))]
    return filled[-1 if last else 0][:_MAX_LABEL_CHARACTERS] if filled else ""


def _read_typed(page: "PdfPage", index: int) -> Iterator[str]:
    """Yield a text that was typed onto the page, which readers show also if nothing says how to draw it."""
    with _Annotation(page, index) as annotation:
        if _is_seen(annotation) and raw.FPDFAnnot_GetSubtype(annotation) == raw.FPDF_ANNOT_FREETEXT:
            text = _read_text(raw.FPDFAnnot_GetStringValue, annotation, b"Contents").replace("\r", "\n").strip()
            if text:
                yield text


def _is_comment(page: "PdfPage", index: int) -> bool:
    with _Annotation(page, index) as annotation:
        if not _is_seen(annotation) or raw.FPDFAnnot_GetSubtype(annotation) not in _COMMENTS:
            return False
        return bool(_read_text(raw.FPDFAnnot_GetStringValue, annotation, b"Contents").strip())


def _has_others(page: "PdfPage", count: int) -> bool:
    """Take the fields from the page, and return whether other annotations are left that may draw something."""
    others = False
    for index in reversed(range(count)):
        with _Annotation(page, index) as annotation:
            kind = raw.FPDFAnnot_GetSubtype(annotation) if annotation else raw.FPDF_ANNOT_LINK
            is_read = kind in _WITHOUT_TEXT or (kind == raw.FPDF_ANNOT_WIDGET and _is_field(page.formenv, annotation))
        if is_read:
            raw.FPDFPage_RemoveAnnot(page, index)
        elif kind not in _COMMENTS:
            others = True
    return others


def _is_field(form: Any, annotation: Any) -> bool:
    """Return whether a person fills a field in; a signature is drawn, and so is a field that belongs to no form."""
    return form is not None and raw.FPDFAnnot_GetFormFieldType(form, annotation) != raw.FPDF_FORMFIELD_SIGNATURE


def _read_drawn(document: "PdfDocument", page: "PdfPage", *, number: int, before: str) -> str:
    """Return the text that annotations draw, which follows that of the page after they were made a part of it."""
    if raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_SUCCESS:
        return ""
    flat = document[number]
    text_page = flat.get_textpage()
    try:
        after: str = text_page.get_text_bounded()
    finally:
        text_page.close()
        flat.close()
    return after[len(before) :] if after.startswith(before) else _added(before, after)


def _added(before: str, after: str) -> str:
    known = set(before.splitlines())
    return "\n".join(line for line in after.splitlines() if line not in known)


def _read_text(function: Callable[..., int], *arguments: Any) -> str:
    size = function(*arguments, None, 0)
    if size <= 0:
        return ""
    buffer = (raw.FPDF_WCHAR * (size // 2))()
    function(*arguments, buffer, size)
    return bytes(ctypes.string_at(buffer, size)).decode("utf-16-le", "replace").rstrip("\0")
