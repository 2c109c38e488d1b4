"""Reads PDF files page by page, in the order in which the file draws its text."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

from kb_client.files.extraction import Extraction, ExtractOptions, UnreadableDocument, join_pages
from kb_client.files.formats.hyphenation import join_hyphenated
from kb_client.files.formats.literal_lines import keep_literal
from kb_client.files.formats.running_lines import without_running_lines
from kb_client.files.ocr import recognize_page

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

_LIGATURES: Final = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\u00a0": " "}
)
_PDF_DATE: Final = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?|Z)?")
_TITLE_OF_A_PROGRAM: Final = re.compile(
    r"untitled|title|.*\.(docx?|dvi|indd|pptx?|qxd|rtf|tex|xlsx?)\b.*", re.IGNORECASE
)
_HEADER_WITHIN_BYTES: Final = 1_024


def extract(data: bytes, options: ExtractOptions) -> Extraction:
    """Return the text of all pages, without headers and footers, and with hyphenated words joined.

    Raises:
        UnreadableDocument: it is not a PDF, is encrypted, has too many pages, or is a scan without text.
    """
    document = _open(data)
    page_count = len(document)
    if page_count > options.limits.pages:
        raise UnreadableDocument(f"it has more than {options.limits.pages} pages", "split it")
    texts = [_page_text(document, number) for number in range(page_count)]
    empty = [number for number, text in enumerate(texts) if not text.strip() and _shows_something(document, number)]
    if options.ocr:
        for number in empty:
            texts[number] = _recognize(document, number, options)
    cleaned = map(keep_literal, join_hyphenated(without_running_lines(texts)))
    text, pages = join_pages(list(enumerate(cleaned, 1)))
    if not text:
        _refuse_without_text(options, scanned=bool(empty))
    metadata = document.get_metadata_dict(skip_empty=True)
    return Extraction(
        text,
        title=_title(metadata.get("Title", "")),
        date=parse_pdf_date(metadata.get("ModDate", "")) or parse_pdf_date(metadata.get("CreationDate", "")),
        pages=pages,
        warnings=_warnings(empty, page_count, options),
    )


def _open(data: bytes) -> "PdfDocument":
    import pypdfium2

    if b"%PDF-" not in data[:_HEADER_WITHIN_BYTES]:
        raise UnreadableDocument("it is not a PDF, although its name says so", "check what kind of file it is")
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD:
            raise UnreadableDocument("it needs a password", "save it without a password") from None
        raise UnreadableDocument("it is damaged", "save or print it as PDF again") from None


def _open_page(document: "PdfDocument", number: int) -> "PdfPage | None":
    """Return a page, or None if it is damaged: the others can be read."""
    import pypdfium2

    try:
        return document[number]
    except pypdfium2.PdfiumError:
        return None


def _shows_something(document: "PdfDocument", number: int) -> bool:
    """Return whether a page has any picture or drawing, rather than being blank."""
    page = _open_page(document, number)
    if page is None:
        return False
    try:
        return next(iter(page.get_objects(max_depth=1)), None) is not None
    finally:
        page.close()


def _recognize(document: "PdfDocument", number: int, options: ExtractOptions) -> str:
    page = _open_page(document, number)
    if page is None:
        return ""
    try:
        return recognize_page(page, options)
    finally:
        page.close()


def _page_text(document: "PdfDocument", number: int) -> str:
    page = _open_page(document, number)
    if page is None:
        return ""
    # Text outside of the page, which no reader sees, is not within the bounds.
    text_page = page.get_textpage()
    try:
        text: str = text_page.get_text_bounded()
    finally:
        text_page.close()
        page.close()
    return text.translate(_LIGATURES).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _refuse_without_text(options: ExtractOptions, *, scanned: bool) -> None:
    if not scanned:
        raise UnreadableDocument("all its pages are blank", "leave it out")
    if options.ocr:
        raise UnreadableDocument("it is a scan, and no text was recognized in it", "check the pages and their language")
    raise UnreadableDocument("it is a scan without text", "push it with --ocr, which needs tesseract")


def _warnings(empty: list[int], page_count: int, options: ExtractOptions) -> tuple[str, ...]:
    if not empty:
        return ()
    if options.ocr:
        return (f"{len(empty)} of {page_count} pages were recognized by OCR",)
    return (f"{len(empty)} of {page_count} pages are pictures without text; --ocr reads them",)


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
    """Return the title, unless it is what a program writes when there is none."""
    plain = " ".join(title.split())
    return None if _TITLE_OF_A_PROGRAM.fullmatch(plain) else plain or None
