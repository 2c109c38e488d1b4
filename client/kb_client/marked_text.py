"""Decodes texts that editors and shells write with a byte order mark, which is no part of them."""

import codecs
from typing import Final

# UTF-32 first: its mark begins with that of UTF-16.
MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def find_mark(data: bytes) -> str | None:
    """Return the encoding that the byte order mark of a text stands for; None if there is no mark."""
    return next((encoding for mark, encoding in MARKS if data.startswith(mark)), None)


def decode_marked(data: bytes) -> str:
    """Return a text in the encoding of its mark, or in UTF-8, without the mark and with plain line ends.

    Raises:
        UnicodeError: it is written in another encoding.
    """
    text = data.decode(find_mark(data) or "utf-8").removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n")
