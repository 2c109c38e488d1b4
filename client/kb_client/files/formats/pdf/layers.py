"""Takes the layers off a page that a reader does not see: those of another language, of drafts, of notes to printers.

pdfium does not tell which layers are shown, but it draws only those: what is left blank is hidden.
"""

from collections.abc import Iterator, Mapping, Sequence
from ctypes import POINTER, byref, c_ulong, cast, create_string_buffer
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

_MAX_OBJECTS: Final = 10_000
_MAX_LAYERS: Final = 30
_LONGEST_NAME_BYTES: Final = 400
_LONGEST_SIDE_PIXELS: Final = 1_000


def hide_layers(page: "PdfPage") -> int:
    """Make what is on hidden layers no part of a page, and return their number. Other objects stay."""
    from pypdfium2 import raw

    objects = list(islice(_objects(page), _MAX_OBJECTS))
    layers: dict[str, list[Any]] = {}
    for each in objects:
        if (name := _find_layer(each)) is not None:
            layers.setdefault(name, []).append(each)
    hidden = _find_hidden(page, objects, dict(islice(layers.items(), _MAX_LAYERS))) if layers else []
    for each in (each for name in hidden for each in layers[name]):
        raw.FPDFPageObj_SetIsActive(each, 0)
    return len(hidden)


def is_invisible(page_object: object) -> bool:
    """Return whether an object is text that was recognized in a scan, and put over it without a colour."""
    from pypdfium2 import raw

    return bool(raw.FPDFTextObj_GetTextRenderMode(page_object) == raw.FPDF_TEXTRENDERMODE_INVISIBLE)


def _find_hidden(page: "PdfPage", objects: Sequence[Any], layers: Mapping[str, Sequence[Any]]) -> list[str]:
    from pypdfium2 import raw

    for each in objects:
        raw.FPDFPageObj_SetIsActive(each, 0)
    hidden: list[str] = []
    for name, of_layer in layers.items():
        for active in (1, 0):
            for each in of_layer:
                raw.FPDFPageObj_SetIsActive(each, active)
            if active and not any(map(is_invisible, of_layer)) and not _shows_something(page):
                hidden.append(name)
    for each in objects:
        raw.FPDFPageObj_SetIsActive(each, 1)
    return hidden


def _shows_something(page: "PdfPage") -> bool:
    bitmap = page.render(
        scale=min(1.0, _LONGEST_SIDE_PIXELS / max(*page.get_size(), 1)),
        fill_color=(0, 0, 0, 0),
        may_draw_forms=False,
        draw_annots=False,
        maybe_alpha=True,
        rev_byteorder=False,
    )
    try:
        return any(bytes(bitmap.buffer))
    finally:
        bitmap.close()


def _objects(page: "PdfPage") -> Iterator[Any]:
    from pypdfium2 import raw

    for index in range(raw.FPDFPage_CountObjects(page)):
        yield raw.FPDFPage_GetObject(page, index)


def _find_layer(page_object: object) -> str | None:
    """Return the name of the layer of an object; empty for a group of layers, None for no layer."""
    from pypdfium2 import raw

    for index in range(raw.FPDFPageObj_CountMarks(page_object)):
        mark = raw.FPDFPageObj_GetMark(page_object, index)
        if _read(raw.FPDFPageObjMark_GetName, mark) == "OC":
            return _read(raw.FPDFPageObjMark_GetParamStringValue, mark, b"Name")
    return None


def _read(function: Any, *arguments: object) -> str:  # a function of pdfium has no type
    from pypdfium2 import raw

    buffer, length = create_string_buffer(_LONGEST_NAME_BYTES), c_ulong()
    function(*arguments, cast(buffer, POINTER(raw.FPDF_WCHAR)), _LONGEST_NAME_BYTES, byref(length))
    return buffer.raw[: max(length.value - 2, 0)].decode("utf-16-le", "replace")
