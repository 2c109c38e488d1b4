"""Reads PDF files page by page, in the order in which the file draws its text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from kb_client.files.extraction import Extraction, ExtractOptions, UnreadableDocument, join_pages
from kb_client.files.formats.pdf.characters import find_indexes
from kb_client.files.formats.pdf.hyphenation import join_hyphenated, read_hyphens
from kb_client.files.formats.pdf.layers import hide_layers, is_invisible
from kb_client.files.formats.pdf.lines import Line, lines_without_places, read_lines
from kb_client.files.formats.pdf.paragraphs import join_paragraphs
from kb_client.files.formats.pdf.parted_words import join_initials, join_spaced
from kb_client.files.formats.pdf.readable_letters import is_readable, reads_as_words
from kb_client.files.formats.pdf.right_to_left import order_right_to_left
from kb_client.files.formats.pdf.running_lines import without_running_lines
from kb_client.files.formats.pdf.turned import part_sideways, upright_text
from kb_client.files.formats.text.literal_lines import keep_literal
from kb_client.files.ocr import recognize_page
from kb_client.files.titles import own_title

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage, PdfTextPage

_LIGATURES: Final = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\u00a0": " "}
    # Codes of TeX's fonts, which don't say which letters they show.
    | {
        "\x0b": "ff",
        "\x0c": "fi",
        "\x0e": "ffi",
        "\x1b": "ff",
        "\x1c": "fi",
        "\x1d": "fl",
        "\x1e": "ffi",
        "\x1f": "ffl",
    }
    | {"\x10": "“", "\x11": "”", "\x12": "„", "\x13": "«", "\x14": "»", "\x15": "\u2013", "\x16": "\u2014"}
)
_PDF_DATE: Final = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?|Z)?")
_NAME_OF_A_FILE: Final = re.compile(
    r".*\.(docx?|dvi|indd|odt|pages|pptx?|ps|pub|qx[dp]|rtf|tex|xlsx?)\b.*", re.IGNORECASE
)
_HEADER_WITHIN_BYTES: Final = 1_024
_MOST_CHARACTERS_OF_A_PICTURE: Final = 300
"""Letters and digits that the stamp, the number and the header of a scanned page may have."""
_PICTURE_SHARE: Final = 0.5
"""Share of a page that pictures cover, so that what they show is most of it."""
_MAX_OBJECTS: Final = 2_000
"""Objects of a page that are looked at for pictures."""
_CHECKED_CHARACTERS: Final = 200
"""Characters of a page of which pdfium is asked whether it knows their letters."""
_MOST_UNKNOWN: Final = 0.3


@dataclass(frozen=True, slots=True)
class _ReadPage:
    lines: Sequence[Line] = ()
    kind: Literal["text", "blank", "picture", "no letters"] = "text"
    annotations: Sequence[str] = ()
    """Lines that form fields and notes show, which no recognition has to find again."""
    comments: int = 0
    hidden_layers: int = 0


def extract(data: bytes, options: ExtractOptions) -> Extraction:
    """Return the text of all pages, without headers and footers, and with hyphenated words joined.

    Raises:
        UnreadableDocument: it is not a PDF, is encrypted, has too many pages, or is a scan without text.
    """
    document = _open(data)
    if len(document) > options.limits.pages:
        raise UnreadableDocument(f"it has more than {options.limits.pages} pages", "split it")
    pages = [_read_page(document, number) for number in range(len(document))]
    lines = [_lines_of(document, page, number=number, options=options) for number, page in enumerate(pages)]
    texts, continued = join_paragraphs(without_running_lines(lines))
    whole = ["\n".join([text, *page.annotations]) for text, page in zip(join_hyphenated(texts), pages, strict=True)]
    text, positions = join_pages(
        list(enumerate(map(keep_literal, whole), 1)),
        continued={at + 1 for at in continued if not pages[at].annotations},
    )
    if not text:
        _refuse_without_text(pages, options)
    metadata = document.get_metadata_dict(skip_empty=True)
    return Extraction(
        text,
        title=own_title(_title(metadata.get("Title", ""))),
        date=parse_pdf_date(metadata.get("ModDate", "")) or parse_pdf_date(metadata.get("CreationDate", "")),
        pages=positions,
        warnings=tuple(_warnings(document, pages, options)),
    )


def _open(data: bytes) -> "PdfDocument":
    import pypdfium2

    if b"%PDF-" not in data[:_HEADER_WITHIN_BYTES]:
        raise UnreadableDocument("it is not a PDF, although its name says so", "check what kind of file it is")
    try:
        document = pypdfium2.PdfDocument(data)
        if document.get_formtype() == pypdfium2.raw.FORMTYPE_XFA_FULL:
            raise UnreadableDocument("it is a form that only Adobe's programs show (XFA)", "print it there as PDF")
        document.init_forms()
    except pypdfium2.PdfiumError as error:
        if error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD:
            raise UnreadableDocument("it needs a password", "save it without a password") from None
        raise UnreadableDocument("it is damaged", "save or print it as PDF again") from None
    return document


def _open_page(document: "PdfDocument", number: int) -> "PdfPage | None":
    """Return a page, or None if it is damaged: the others can be read."""
    import pypdfium2

    try:
        return document[number]
    except pypdfium2.PdfiumError:
        return None


def _read_page(document: "PdfDocument", number: int) -> _ReadPage:
    from kb_client.files.formats.pdf.annotations import read_annotations

    page = _open_page(document, number)
    if page is None:
        return _ReadPage(kind="blank")
    try:
        hidden = hide_layers(page)
        lines, knows_letters = _read_text(page)
        is_picture = _is_picture(page, " ".join(line.text for line in lines))
        annotations = read_annotations(document, page, number)
    finally:
        page.close()
    plain = [replace(line, text=text) for line in lines if (text := _plain(line.text)).strip()]
    shown = [_plain(line) for line in annotations.lines]
    if not knows_letters:
        return _ReadPage((), "no letters", shown, annotations.comments, hidden)
    kind: Literal["text", "blank", "picture"] = "text" if plain else "blank"
    return _ReadPage(plain, "picture" if is_picture else kind, shown, annotations.comments, hidden)


def _read_text(page: "PdfPage") -> tuple[list[Line], bool]:
    """Return the lines of a page itself, and whether its characters are letters that a reader sees."""
    with upright_text(page) as (text_page, bounds, has_sideways):
        # Text outside of the page, which no reader sees, is not within the bounds.
        text: str = text_page.get_text_bounded(*bounds)
        knows_letters = is_readable(text) and (_knows_letters(text_page) or reads_as_words(text))
        text = part_sideways(text_page, text) if has_sideways else text
        text = join_spaced(text_page, read_hyphens(text_page, text))
        text, indexes = join_initials(text_page, text, find_indexes(text_page, text))
        text = order_right_to_left(text_page, text, indexes)
        return read_lines(text_page, text, indexes), knows_letters


def _plain(text: str) -> str:
    return text.translate(_LIGATURES).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _knows_letters(text_page: "PdfTextPage") -> bool:
    """Return whether the fonts of a page say which letters their glyphs are."""
    from pypdfium2 import raw

    count, is_unknown, pointer = text_page.count_chars(), raw.FPDFText_HasUnicodeMapError, text_page.raw
    checked = range(0, count, max(count // _CHECKED_CHARACTERS, 1))
    unknown = sum(is_unknown(pointer, index) == 1 for index in checked)
    return bool(unknown <= _MOST_UNKNOWN * len(checked))


def _is_picture(page: "PdfPage", text: str) -> bool:
    """Return whether pictures or drawings show nearly all of what a reader sees on a page."""
    from pypdfium2 import raw

    if sum(map(str.isalnum, text)) > _MOST_CHARACTERS_OF_A_PICTURE:
        return False
    left, bottom, right, top = page.get_bbox()
    objects = list(islice(page.get_objects(max_depth=2), _MAX_OBJECTS))
    if any(each.type == raw.FPDF_PAGEOBJ_TEXT and is_invisible(each.raw) for each in objects):
        # Somebody has recognized the scan before.
        return False
    boxes = [(each.container or each).get_bounds() for each in objects if each.type == raw.FPDF_PAGEOBJ_IMAGE]
    covered: float = sum(
        max(min(box[2], right) - max(box[0], left), 0) * max(min(box[3], top) - max(box[1], bottom), 0) for box in boxes
    )
    is_covered: bool = covered >= _PICTURE_SHARE * max((right - left) * (top - bottom), 1)
    return is_covered or (bool(objects) and not text.strip())


def _lines_of(document: "PdfDocument", page: _ReadPage, *, number: int, options: ExtractOptions) -> Sequence[Line]:
    if not options.ocr or page.kind not in ("picture", "no letters"):
        return page.lines
    recognized = _recognize(document, number, options)
    shown = "".join(line.text for line in page.lines)
    is_more = sum(map(str.isalnum, recognized)) > sum(map(str.isalnum, shown))
    return lines_without_places(recognized) if is_more else page.lines


def _recognize(document: "PdfDocument", number: int, options: ExtractOptions) -> str:
    page = _open_page(document, number)
    if page is None:
        return ""
    try:
        return recognize_page(page, options)
    finally:
        page.close()


def _refuse_without_text(pages: Sequence[_ReadPage], options: ExtractOptions) -> None:
    kinds = {page.kind for page in pages}
    if kinds <= {"blank", "text"}:
        raise UnreadableDocument("all its pages are blank", "leave it out")
    if options.ocr:
        raise UnreadableDocument("it is a scan, and no text was recognized in it", "check the pages and their language")
    if "picture" in kinds:
        raise UnreadableDocument("it is a scan without text", "push it with --ocr, which needs tesseract")
    raise UnreadableDocument("its fonts don't say which letters they show", "push it with --ocr, which needs tesseract")


def _warnings(document: "PdfDocument", pages: Sequence[_ReadPage], options: ExtractOptions) -> list[str]:
    from pypdfium2 import raw

    pictures, noise = (sum(page.kind == kind for page in pages) for kind in ("picture", "no letters"))
    comments = sum(page.comments for page in pages)
    layers = max((page.hidden_layers for page in pages), default=0)
    attached = raw.FPDFDoc_GetAttachmentCount(document)
    said = {
        f"{pictures + noise} of {len(pages)} pages were recognized by OCR": options.ocr and pictures + noise,
        f"{pictures} of {len(pages)} pages are pictures without text; --ocr reads them": not options.ocr and pictures,
        f"{noise} of {len(pages)} pages were left out, because their fonts don't say which letters they show; "
        "--ocr reads them": not options.ocr and noise,
        f"{comments} comments were left out": comments > 0,
        f"{layers} hidden layers were left out; show them and save it again to have them": layers > 0,
        f"{attached} attached files were not read; save and push them": attached > 0,
    }
    return [sentence for sentence, holds in said.items() if holds]


def parse_pdf_date(value: str) -> datetime | None:
    """Read a date such as `D:20240131120000+01'00'`; without a time zone it is taken as UTC."""
    found = _PDF_DATE.match(value)
    if not found:
        return None
    year, month, day, hour, minute, second, sign, zone_hours, zone_minutes = found.groups()
    offset = timedelta(hours=int(zone_hours or 0), minutes=int(zone_minutes or 0))
    try:
        return datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            tzinfo=timezone(-offset if sign == "-" else offset) if sign else UTC,
        )
    except ValueError:
        return None


def _title(title: str) -> str | None:
    """Return the title, unless a program has written the name of the file from which it made the PDF."""
    return None if _NAME_OF_A_FILE.fullmatch(" ".join(title.split())) else title
