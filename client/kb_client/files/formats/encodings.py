"""Decodes bytes whose encoding nothing names."""

import codecs
from typing import Final

from kb_client.files.extraction import UnreadableDocument

# UTF-32 first: its mark begins with that of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE_BYTES: Final = 4_096
_ALLOWED_CONTROLS: Final = frozenset("\t\n\r\f\v\x1b\x85\xad")


def decode_text(data: bytes, *, declared: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Return the text with plain line ends, and a warning if the encoding had to be assumed.

    Args:
        data: contents of a file.
        declared: encoding that the file names for itself; it is ignored if it is unknown or wrong.

    Raises:
        UnreadableDocument: the file is not text.
    """
    for encoding in _certain_encodings(data, declared):
        try:
            return _plain_lines(data.decode(encoding)), ()
        except (UnicodeDecodeError, LookupError):
            continue
    encoding = _assume_encoding(data)
    text = _plain_lines(data.decode(encoding, "replace"))
    if _is_binary(text):
        raise UnreadableDocument("it is not text, although its name says so", "check what kind of file it is")
    return text, (f"its encoding is not UTF-8 and was taken to be {encoding}; if letters are wrong, save it as UTF-8",)


def _certain_encodings(data: bytes, declared: str | None) -> list[str]:
    marked = [encoding for mark, encoding in _MARKS if data.startswith(mark)]
    if marked:
        return marked[:1]
    # NUL is valid in UTF-8, and text does not contain it.
    return [each for each in (declared, "utf-8") if each and b"\0" not in data]


def _assume_encoding(data: bytes) -> str:
    sample = data[:_SAMPLE_BYTES]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if odd > len(sample) // 8 and even < odd // 8 + 1:
        return "utf-16-le"
    if even > len(sample) // 8 and odd < even // 8 + 1:
        return "utf-16-be"
    # Five bytes have no meaning in cp1252, and one in ISO 8859-1.
    return "iso-8859-1" if any(byte in data for byte in b"\x81\x8d\x8f\x90\x9d") else "cp1252"


def _plain_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _is_binary(text: str) -> bool:
    sample = text[:_SAMPLE_BYTES]
    controls = sum(1 for character in sample if character < " " and character not in _ALLOWED_CONTROLS)
    return controls > len(sample) // 50
