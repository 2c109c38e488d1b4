"""Small PDF files, written by hand."""

from collections.abc import Mapping, Sequence
from typing import Final

Line = tuple[int, int, str]
"""Position from the left and from the bottom, in points, and a text in Latin-1 with escapes of PDF."""

FI: Final = "\\001"
"""The glyph fi."""
_FONT: Final = (
    b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding "
    b"<< /BaseEncoding /WinAnsiEncoding /Differences [ 1 /fi /fl ] >> >>"
)

_WIDTHS: Final = {
    **dict.fromkeys("ijl'", 222),
    **dict.fromkeys("ftI.,:; ", 278),
    "r": 333,
    "-": 333,
    "w": 722,
    "m": 833,
}
"""Widths of letters of Helvetica, in thousandths of its size, if they are not those of most others."""


def make_pdf(*pages: Sequence[Line], info: Mapping[str, str] | None = None) -> bytes:
    """Return a PDF with lines of text."""
    return assemble([_text_stream(lines) for lines in pages], info=info)


def make_pdf_in_font(*pages: Sequence[Line], letters: Mapping[str, str]) -> bytes:
    """Return a PDF whose font says which letters some of its glyphs show, such as a soft hyphen for the hyphen."""
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding /ToUnicode 2 0 R >>"
    shown = b" ".join(
        b"<%02x> <%s>" % (ord(glyph), text.encode("utf-16-be").hex().encode()) for glyph, text in letters.items()
    )
    table = (
        b"begincmap 1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfrange <20> <7e> <0020> endbfrange "
        b"%d beginbfchar %s endbfchar endcmap" % (len(letters), shown)
    )
    return assemble([_text_stream(lines) for lines in pages], objects=[_stream(table)], font=font)


def make_turned_page(*texts: tuple[int, Line], rotation: int = 0) -> bytes:
    """Return a PDF of one page that readers show turned to the right, with texts that are turned to the left.

    Args:
        texts: each with the degrees by which it is turned, a multiple of 90.
        rotation: degrees by which the page is turned.
    """
    turns = {0: "1 0 0 1", 90: "0 1 -1 0", 180: "-1 0 0 -1", 270: "0 -1 1 0"}
    shown = " ".join(f"{turns[turn]} {x} {y} Tm ({text}) Tj" for turn, (x, y, text) in texts)
    made = assemble([f"BT /F1 12 Tf {shown} ET".encode("latin-1")])
    box = b"/MediaBox [0 0 612 792]"
    return made.replace(box, box + b" /Rotate %d" % rotation)


def make_scan(pixels: bytes, *, width: int, height: int) -> bytes:
    """Return a PDF of one page that is a picture in shades of grey."""
    image = b"<< /Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8" % (
        width,
        height,
    )
    return assemble([b"612 0 0 792 0 0 cm /X0 Do"], objects=[_stream(pixels, image)])


def make_endless_pdf(*, levels: int, pages: int = 1, fan_out: int = 10) -> bytes:
    """Return a small PDF that draws `fan_out` to the power of `levels` texts on each page, by forms that draw forms."""
    head = b"<< /Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << /Font << /F1 1 0 R >>"
    text = _stream(_text_stream([(72, 700, "again")]), head + b" >>")
    # Object 2 is the innermost form, since object 1 is the font.
    outer = [
        _stream(b"/X0 Do " * fan_out, head + b" /XObject << /X0 %d 0 R >> >>" % (2 + level)) for level in range(levels)
    ]
    return assemble([b"/X%d Do" % levels] * pages, objects=[text, *outer])


def make_annotated_pdf(
    lines: Sequence[Line], *annotations: bytes, drawn: str = "", form: bool = True, xfa: bool = False
) -> bytes:
    """Return a PDF of one page with lines of text and annotations.

    Args:
        lines: texts of the page.
        annotations: dictionaries, of which `2 0 R` is an appearance.
        drawn: text of that appearance.
        form: whether they are the fields of a form.
        xfa: whether the form has a second form in XML, which replaces it.
    """
    head = b"<< /Type /XObject /Subtype /Form /BBox [0 0 128 30] /Resources << /Font << /F1 1 0 R >> >>"
    appearance = _stream(_text_stream([(4, 8, drawn)]), head)
    page = _text_stream(lines)
    return assemble([page], objects=[appearance], annotations=annotations, form=form, xfa=xfa)


def make_picture_page(lines: Sequence[Line], *, share: float, invisible: bool = False) -> bytes:
    """Return a PDF of one page with a picture over a share of its height, and lines of text, which may be invisible."""
    head = b"<< /Type /XObject /Subtype /Image /Width 2 /Height 2 /ColorSpace /DeviceGray /BitsPerComponent 8"
    picture = b"q 612 0 0 %d 0 0 cm /X0 Do Q " % (792 * share)
    mode = b"3 Tr " if invisible else b""
    return assemble([picture + mode + _text_stream(lines)], objects=[_stream(b"abcd", head)])


def text_field(box: tuple[int, int, int, int], value: str, more: str = "") -> bytes:
    """Return a field that a person fills in. `more` are further entries of its dictionary."""
    corners = " ".join(map(str, box))
    kind = "" if "/FT" in more else "/FT /Tx"
    entries = f"/Type /Annot /Subtype /Widget {kind} /T (f{box[0]}-{box[1]}) /Rect [{corners}] /V ({value}) {more}"
    return f"<< {entries} >>".encode("latin-1")


def assemble(
    contents: Sequence[bytes],
    *,
    objects: Sequence[bytes] = (),
    annotations: Sequence[bytes] = (),
    layers: Mapping[str, bool] | None = None,
    form: bool = True,
    xfa: bool = False,
    info: Mapping[str, str] | None = None,
    font: bytes = _FONT,
) -> bytes:
    """Return a PDF of one page for each content stream, which names the objects X0, X1 and so on, and layers.

    The annotations are on each page. They are fields if there is a form, which may have a second one in XML. A layer is
    shown or not.
    """
    groups = [f"<< /Type /OCG /Name ({name}) >>".encode("latin-1") for name in layers or {}]
    body = [font, *objects, *annotations, *groups]
    places = {name: b"%d 0 R" % (len(body) - len(groups) + at) for at, name in enumerate(layers or {}, 1)}
    properties = b" ".join(f"/{name} ".encode("latin-1") + place for name, place in places.items())
    off = b" ".join(place for name, place in places.items() if not (layers or {})[name])
    names = b" ".join(b"/X%d %d 0 R" % (number, number + 2) for number in range(len(objects)))
    fields = b" ".join(b"%d 0 R" % (number + 2 + len(objects)) for number in range(len(annotations)))
    tree = len(body) + 2 * len(contents) + 1
    pages = []
    for content in contents:
        body.append(_stream(content))
        body.append(
            b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 612 792] /Contents %d 0 R /Annots [%s] "
            b"/Resources << /Font << /F1 1 0 R >> /XObject << %s >> /Properties << %s >> >> >>"
            % (tree, len(body), fields, names, properties)
        )
        pages.append(b"%d 0 R" % len(body))
    body.append(b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(pages), b" ".join(pages)))
    second = b"/XFA (<xdp/>) /NeedsRendering true" if xfa else b""
    fields_of_form = b"/AcroForm << /Fields [%s] /DA (/F1 10 Tf) %s >>" % (fields, second) if fields and form else b""
    shown = b"/OCProperties << /OCGs [%s] /D << /OFF [%s] >> >>" % (b" ".join(places.values()), off) if places else b""
    body.append(b"<< /Type /Catalog /Pages %d 0 R %s %s %s >>" % (tree, fields_of_form, second, shown))
    body.append(b"<< %s >>" % b" ".join(f"/{key} ({value})".encode("latin-1") for key, value in (info or {}).items()))
    return _with_table(body)


def _text_stream(lines: Sequence[Line]) -> bytes:
    shown = " ".join(f"1 0 0 1 {x} {y} Tm ({text}) Tj" for x, y, text in lines)
    return f"BT /F1 12 Tf {shown} ET".encode("latin-1")


def _stream(data: bytes, head: bytes = b"<<") -> bytes:
    return head + b" /Length %d >> stream\n" % len(data) + data + b"\nendstream"


def _with_table(body: Sequence[bytes]) -> bytes:
    parts = [b"%PDF-1.4\n"]
    positions, end = [], len(parts[0])
    for number, content in enumerate(body, 1):
        positions.append(end)
        parts.append(b"%d 0 obj\n" % number + content + b"\nendobj\n")
        end += len(parts[-1])
    table = b"".join(b"%010d 00000 n \n" % position for position in positions)
    return (
        b"".join(parts)
        + b"xref\n0 %d\n0000000000 65535 f \n" % (len(body) + 1)
        + table
        + b"trailer << /Size %d /Root %d 0 R /Info %d 0 R >>\n" % (len(body) + 1, len(body) - 1, len(body))
        + b"startxref\n%d\n%%%%EOF" % end
    )


def width_of(text: str) -> float:
    """Return how wide a text is in points."""
    return sum(_WIDTHS.get(letter, 667 if letter.isupper() else 556) for letter in text) * 12 / 1000


def set_paragraph(text: str, *, left: int = 72, top: int = 700, width: int = 300) -> list[Line]:
    """Return the lines of a text that is as wide as a column; a line ends where the next word has no room."""
    lines, begun = [], ""
    for word in text.split():
        if begun and width_of(f"{begun} {word}") > width:
            lines.append(begun)
            begun = word
        else:
            begun = f"{begun} {word}".strip()
    return [(left, top - 14 * at, line) for at, line in enumerate([*lines, begun])]
