"""Decodes texts: by their byte order mark, as UTF-8, by the encoding that they name, or by their letters."""

import codecs
import re
from collections.abc import Iterator
from typing import Final

from kb_client.files.extraction import UnreadableDocument
from kb_client.files.formats.text.encoding_guess import guess_encoding
from kb_client.marked_text import find_mark

_SAMPLE_BYTES: Final = 4_096
_ALLOWED_CONTROLS: Final = frozenset("\t\n\r\f\v\x1b\x85\xad")
_SUPERSETS: Final = {"gbk": "gb18030", "iso-2022-jp": "iso2022_jp_ext", "x-user-defined": "cp1252"}
"""Codecs that also know the letters by which browsers extend an encoding, by its name in the WHATWG table."""
_UNREAD_BY_BROWSERS: Final = "replacement"
"""Name in that table of encodings that mails are in, and that browsers refuse to read."""
_SAYS_NOTHING: Final = frozenset({"", "ascii", "us-ascii", "unknown-8bit", "x-unknown", "8bit", "binary", "default"})
_OF_TEXTS: Final = ("iso", "cp", "koi8", "mac", "gb", "big5", "shift", "euc", "johab", "tis", "hz", "utf", "ptcp")
"""Beginnings of the names of codecs for texts. Python knows others, which unpack or transform."""
_MOST_UNREADABLE: Final = 0.1
"""Share of the characters beyond ASCII that may be unreadable in a text of a named encoding."""


def decode_text(data: bytes, *, declared: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Return the text with plain line ends, and a warning if the encoding was guessed or something is unreadable.

    Args:
        data: contents of a file.
        declared: encoding that the file names for itself; it is ignored if it is unknown or can't be true.

    Raises:
        UnreadableDocument: the file is not text.
    """
    for encoding in _likely_encodings(data, declared):
        decoded = _decode_mostly(data, encoding)
        if decoded is not None:
            text, unreadable = decoded
            warning = f"{unreadable} characters can't be read as {encoding}; save the text as UTF-8"
            return _plain_lines(text), (warning,) if unreadable else ()
    encoding = _assume_encoding(data)
    text = _plain_lines(data.decode(encoding, "replace"))
    if _is_binary(text):
        raise UnreadableDocument("it is not text, although its name says so", "check what kind of file it is")
    return text, (f"its encoding is not UTF-8 and was taken to be {encoding}; if letters are wrong, save it as UTF-8",)


def decode_declared(data: bytes, declared: str | None) -> str | None:
    """Return a text in the encoding that its sender names; None if that is unknown or can't be true."""
    codec = None if find_mark(data) else _codec_of(declared)
    if codec is None or _is_rather_utf_8(data, codec):
        return None
    decoded = _decode_mostly(data, codec)
    return None if decoded is None else decoded[0]


def _likely_encodings(data: bytes, declared: str | None) -> Iterator[str]:
    if marked := find_mark(data):
        yield marked
        return
    # NUL is valid in UTF-8, and text does not contain it.
    if b"\0" in data:
        return
    codec = _codec_of(declared)
    if codec is not None and codec != "utf-8" and not _is_rather_utf_8(data, codec):
        yield codec
    if not _find_escapes(data):
        yield "utf-8"


def _codec_of(label: str | None) -> str | None:
    """Return the codec that browsers use for the name of an encoding; for one that they don't know, that of Python."""
    from webencodings import lookup

    name = (label or "").strip().strip("\"'").lower()
    if name in _SAYS_NOTHING:
        return None
    known = lookup(name)
    if known is not None and known.name != _UNREAD_BY_BROWSERS:
        codec = _SUPERSETS.get(known.name, known.codec_info.name)
        # What names its encoding in ASCII is not written in UTF-16.
        return "utf-8" if codec.startswith("utf-16") else codec
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    return codec if codec.startswith(_OF_TEXTS) else None


def _is_rather_utf_8(data: bytes, codec: str) -> bool:
    """Return whether a text that names another encoding is UTF-8, which other texts are only by chance."""
    if codec == "utf-8" or data.isascii():
        return False
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    if codec.startswith(("gb", "big5", "cp9", "euc", "johab")):
        # Two characters of two bytes each may look like UTF-8; half a dozen of three bytes don't.
        return sum(character > "\u07ff" for character in text) > _CHANCE
    return True


_CHANCE: Final = 5


def _decode_mostly(data: bytes, codec: str) -> tuple[str, int] | None:
    """Return a text and the number of its unreadable characters; None if those are too many for the encoding."""
    try:
        return data.decode(codec).removeprefix("\ufeff"), 0
    except (UnicodeDecodeError, LookupError):
        pass
    text = data.decode(codec, "replace").removeprefix("\ufeff")
    unreadable = text.count("\ufffd")
    beyond_ascii = sum(character > "\x7f" for character in text)
    return (text, unreadable) if unreadable <= _MOST_UNREADABLE * beyond_ascii else None


_ESCAPES: Final = ((b"\x1b$B", "iso2022_jp_ext"), (b"\x1b$@", "iso2022_jp_ext"), (b"\x1b$)C", "iso2022_kr"))
_UTF_7_RUN: Final = re.compile(rb"\+([A-Za-z0-9+/]{3,})-?")


def _find_escapes(data: bytes) -> str | None:
    """Return the encoding of a text that writes all its letters in ASCII, by its escapes."""
    if not data.isascii():
        return None
    for escape, encoding in _ESCAPES:
        if escape in data:
            return encoding
    return "utf-7" if _is_utf_7(data) else None


def _is_utf_7(data: bytes) -> bool:
    runs = {found[1] for found in _UTF_7_RUN.finditer(data)}
    # One alone may be a sum, or a phone number.
    if len(runs) <= 1:
        return False
    try:
        letters = "".join((b"+" + run + b"-").decode("utf-7") for run in runs)
        data.decode("utf-7")
    except UnicodeDecodeError:
        return False
    return all(letter.isalpha() and letter > "\x7f" for letter in letters)


def _assume_encoding(data: bytes) -> str:
    sample = data[:_SAMPLE_BYTES]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if odd > len(sample) // 8 and even < odd // 8 + 1:
        return "utf-16-le"
    if even > len(sample) // 8 and odd < even // 8 + 1:
        return "utf-16-be"
    return _find_escapes(data) or guess_encoding(data)


def _plain_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def _is_binary(text: str) -> bool:
    sample = text[:_SAMPLE_BYTES]
    controls = sum(1 for character in sample if character < " " and character not in _ALLOWED_CONTROLS)
    return controls > len(sample) // 50
