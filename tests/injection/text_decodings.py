"""Decodes a text in every way in which a model can read it. Pure."""

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import unquote

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_BASE32: Final = re.compile(r"\b[A-Z2-7]{32,}={0,6}")
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2}[ :]?){16,}")
_BITS: Final = re.compile(r"(?:[01]{8}\s?){16,}")
_NUMBERS: Final = re.compile(r"(?:\b\d{2,3}[ ,]+){16,}\d{2,3}")
_ESCAPES: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_TAGS: Final = re.compile("[\U000e0020-\U000e007e]+")
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{8,}")
_ZERO_WIDTH: Final = re.compile("[\u200b\u200c\u2060\ufeff]{64,}")
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u2060-\u206f\u202a-\u202e\ufeff]")
_SPACED: Final = re.compile(r"(?:\b\w ){12,}\w\b")
_MORSE: Final = {
    ".-": "a", "-...": "b", "-.-.": "c", "-..": "d", ".": "e", "..-.": "f", "--.": "g", "....": "h", "..": "i",
    ".---": "j", "-.-": "k", ".-..": "l", "--": "m", "-.": "n", "---": "o", ".--.": "p", "--.-": "q", ".-.": "r",
    "...": "s", "-": "t", "..-": "u", "...-": "v", ".--": "w", "-..-": "x", "-.--": "y", "--..": "z",
    "..--.-": "_", ".-..-.": '"', "---...": ":",
}  # fmt: skip
_MORSE_TEXT: Final = re.compile(r"(?:[.-]{1,6}[ /]+){12,}[.-]{1,6}")


def decode_all(text: str) -> Iterator[str]:
    """Yield the text as it is, and decoded from each encoding that a part of it is written in."""
    yield text
    for read in (*_OF_ALL, *map(_of_parts, _PARTS)):
        if (other := read(text)) not in {text, ""}:
            yield other


def _of_parts(part: tuple[re.Pattern[str], Callable[[str], str]]) -> Callable[[str], str]:
    pattern, decoded = part
    return lambda text: "\n".join(filter(None, (decoded(found[0]) for found in pattern.finditer(text))))


def _printable(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return ""
    return text if all(each.isprintable() or each.isspace() for each in text) else ""


def _base64(written: str) -> str:
    try:
        return _printable(
            base64.urlsafe_b64decode(
                written.translate({43: 45, 47: 95}).rstrip("=") + "=" * (-len(written.rstrip("=")) % 4)
            )
        )
    except binascii.Error:
        return ""


def _base32(written: str) -> str:
    try:
        return _printable(base64.b32decode(written))
    except binascii.Error:
        return ""


def _hex(written: str) -> str:
    return _printable(bytes.fromhex(re.sub("[ :]", "", written)))


def _bits(written: str) -> str:
    return _printable(bytes(int(each, 2) for each in re.findall("[01]{8}", written)))


def _numbers(written: str) -> str:
    return "".join(chr(int(each)) for each in re.findall(r"\d+", written))


def _tags(written: str) -> str:
    return "".join(chr(ord(each) - 0xE0000) for each in written)


def _selectors(written: str) -> str:
    """Each selector is a byte: the first 16 are 0 to 15."""
    values = (ord(each) - 0xFE00 if ord(each) < 0xE0000 else ord(each) - 0xE0100 + 16 for each in written)
    return _printable(bytes(values))


def _zero_width(written: str) -> str:
    bits = written.translate({0x200B: "0", 0x2060: "0", 0x200C: "1", 0xFEFF: "1"})
    return _printable(bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits) - 7, 8)))


def _morse(written: str) -> str:
    words = (("".join(_MORSE.get(letter, "") for letter in word.split())) for word in written.split("/"))
    return " ".join(words)


def _unescaped(text: str) -> str:
    return _ESCAPES.sub(lambda found: chr(int(found[1] or found[2], 16)), text)


def _rot13(text: str) -> str:
    return codecs.encode(text, "rot13")


def _backwards(text: str) -> str:
    return text[::-1]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _without_invisible(text: str) -> str:
    return _INVISIBLE.sub("", text)


_OF_ALL: Final = (_rot13, _backwards, _folded, html.unescape, unquote, _unescaped, _without_invisible)
_PARTS: Final[tuple[tuple[re.Pattern[str], Callable[[str], str]], ...]] = (
    (_BASE64, _base64),
    (_BASE32, _base32),
    (_HEX, _hex),
    (_BITS, _bits),
    (_NUMBERS, _numbers),
    (_TAGS, _tags),
    (_SELECTORS, _selectors),
    (_ZERO_WIDTH, _zero_width),
    (_MORSE_TEXT, _morse),
    (_SPACED, lambda written: written.replace(" ", "")),
)
