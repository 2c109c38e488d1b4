"""Reads headers of mails as programs write them: encoded words, odd encodings, bytes beyond ASCII."""

import base64
import binascii
import re
from contextlib import suppress
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from itertools import groupby
from typing import Final

from kb_client.files.extraction import UnreadableDocument
from kb_client.files.formats.text.encodings import decode_text

_WORD: Final = re.compile(r"=\?([^?\s]+?)(?:\*[^?\s]*)?\?([bq])\?([^?]*)\?=", re.IGNORECASE)
_BETWEEN_WORDS: Final = re.compile(r"(?<=\?=)\s+(?==\?[^?\s]+\?[bq]\?)", re.IGNORECASE)


def read_header(message: Message, name: str, *, charset: str | None = None) -> str:
    """Return the first header with a name on one line, or an empty text.

    Args:
        message: parsed from bytes with the policy `compat32`, which keeps headers as they are.
        name: in any case.
        charset: encoding of bytes beyond ASCII, if it is known.
    """
    for key, value in message.raw_items():
        if key.lower() == name.lower():
            return read_words(str(value), charset=charset)
    return ""


def read_words(value: str, *, charset: str | None = None) -> str:
    """Return a header, or a parameter of one, with its encoded words decoded, on one line."""
    text = _decode(value.encode("utf-8", "surrogateescape"), charset)
    text = _BETWEEN_WORDS.sub("", text)
    parts: list[str] = []
    at = 0
    # Some programs cut a character in two words.
    for encoding, words in groupby(_WORD.finditer(text), key=lambda word: word[1].lower()):
        data = b""
        for word in words:
            if word.start() > at:
                parts += [_decode(data, encoding), text[at : word.start()]]
                data = b""
            data += _bytes_of(word)
            at = word.end()
        parts.append(_decode(data, encoding))
    return " ".join("".join([*parts, text[at:]]).split())


def read_date(message: Message) -> datetime | None:
    """Return the date of a mail; without a time zone it is taken as UTC."""
    try:
        date = parsedate_to_datetime(read_header(message, "Date"))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _bytes_of(word: re.Match[str]) -> bytes:
    written = word[3].encode("ascii", "ignore")
    if word[2] in "qQ":
        return binascii.a2b_qp(written, header=True)
    with suppress(binascii.Error):
        return base64.b64decode(written + b"=" * (-len(written) % 4))
    return word[0].encode("utf-8", "replace")


def _decode(data: bytes, charset: str | None) -> str:
    try:
        return decode_text(data, declared=charset)[0]
    except UnreadableDocument:
        return data.decode("utf-8", "replace")
