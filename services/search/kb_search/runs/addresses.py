"""Addresses in answers: a document could have had the model carry what it knows to one, by a link or an image. Pure.

No link or image of Markdown is left, only addresses as they stand, of which programs make links. One that the run did
not find or was not given is written so that none does: `https[:]//example.com`. No HTML tag is left that has attributes
or loads what stands in it (`< img src=...`), no link such as `<smb://example.com>`, and no HTML reference to a
character that addresses are written with (`https&amp;#58;//`). Code is no exception, since programs do not agree on
what is code.
"""

import html
import re
import string
import sys
from collections.abc import Iterable, Iterator
from typing import Final

_NO_PART: Final = " \t\n\r\f\v<"
_ADDRESS: Final = re.compile(rf"(?:(?:https?|ftp)\\?:|www\\?\.)[^{_NO_PART}]*", re.IGNORECASE)
"""As far as any program would take it for a part of the address. Markdown drops a backslash before a colon or a dot."""
_END: Final = re.compile(f"[{_NO_PART}]")
_BEGINNING: Final = re.compile(r"(https?|ftp|www)\\?([:.])", re.IGNORECASE)
_CLOSED_BEFORE: Final = re.compile(r"[)\]}>\"'`|]")
"""Characters that end an address within other text, such as Markdown."""
_NO_PART_AT_END: Final = "?!.,:;*_~'\"`|)]}>/"
_SHORT_END: Final = re.compile(r"/?[^/]{0,4}")
"""Pattern of a short end of an address. A long one could carry data."""
_DESTINATION: Final = re.compile(r"\](?=[(:])")
"""Before where a link, an image or the definition of one leads."""
_REFERENCE: Final = re.compile(
    r"&(?:#0*(?P<decimal>[0-9]{1,7});?|#x0*(?P<hexadecimal>[0-9a-f]{1,6});?|[a-z]+;)", re.IGNORECASE
)
"""To a character, in HTML and in Markdown."""
_WRITES_ADDRESSES: Final = frozenset(string.ascii_letters + string.digits + ":/\\.@\t\n\r")
"""The last three are skipped by programs that read an address."""
_TAG: Final = re.compile(r"<(?=[a-z])[^>=]*=?", re.IGNORECASE)
"""An HTML tag up to its first attribute that has a value; a name in it may begin with "<"."""
_TAG_BEGINS: Final = re.compile("<(?=[a-z])", re.IGNORECASE)
_OTHER_BEGINS: Final = re.compile(r"<(?=(?:style|script)\b|(?!(?:https?|ftp):)[a-z][a-z0-9+.-]{1,31}:)", re.IGNORECASE)
"""Pattern of a tag whose text can name what is loaded, and of other schemes, such as `<smb://...>`."""
_MAY_BE_TAG: Final = re.compile(r"<(?:[a-z]|\Z)", re.IGNORECASE)
_UNFINISHED_TAG: Final = re.compile(r"<(?:[a-z][^>=]*)?\Z", re.IGNORECASE)
_TAG_IS_CLEAR: Final = re.compile("[>=]")
_UNFINISHED: Final = re.compile(
    rf"(?:{_ADDRESS.pattern}|h|ht|htt|f|ft|w{{1,2}}|(?:https?|ftp|www)\\?|\]|&#?[0-9a-z]*)\Z", re.IGNORECASE
)
"""Pattern of an end whose meaning depends on the next piece."""

_LONG_PARTS: Final = ((_ADDRESS, _END), (re.compile("&"), re.compile("[^0-9a-z]", re.IGNORECASE)))
"""How what can go on for long begins, and what ends it."""


def addresses_in(texts: Iterable[str]) -> frozenset[str]:
    """All addresses in texts that a run was given or has found."""
    return frozenset(each for text in texts for whole in _ADDRESS.findall(text) for each in _read(whole))


def _read(whole: str) -> Iterator[str]:
    yield whole.rstrip(_NO_PART_AT_END)
    yield _CLOSED_BEFORE.split(whole, maxsplit=1)[0].rstrip(_NO_PART_AT_END)


def neutral(text: str, known: frozenset[str]) -> str:
    """An answer from which nothing leads anywhere but to the `known` addresses, and to those only by a click."""

    def kept(address: re.Match[str]) -> str:
        whole = address[0].rstrip(_NO_PART_AT_END)
        if whole in known and _SHORT_END.fullmatch(address[0], len(whole)):
            return address[0]
        # Also where another begins in it.
        return _BEGINNING.sub(r"\1[\2]", address[0])

    written_out = _REFERENCE.sub(_shown_as_written, text)
    return _DESTINATION.sub("] ", _TAG.sub(_shown_as_text, _ADDRESS.sub(kept, written_out)))


def _shown_as_text(tag: re.Match[str]) -> str:
    """Keep a program from taking for a tag or a link what has attributes, loads what its text says, or leads away."""
    begins = _TAG_BEGINS if tag[0].endswith("=") else _OTHER_BEGINS
    return begins.sub("< ", tag[0])


def _shown_as_written(reference: re.Match[str]) -> str:
    """Keep a program from putting a character of an address in its place."""
    whole, decimal, hexadecimal = reference[0], reference["decimal"], reference["hexadecimal"]
    # Not by `unescape`, which takes no number of thousands of digits.
    number = int(decimal) if decimal else int(hexadecimal, 16) if hexadecimal else None
    character = html.unescape(whole) if number is None else chr(min(number, sys.maxunicode))
    return f"&amp;{whole[1:]}" if character in _WRITES_ADDRESSES else whole


class NeutralPieces:
    """The same for an answer that comes in pieces: what could become an address or a tag waits for its end."""

    def __init__(self, known: frozenset[str]) -> None:
        self._known = known
        self._held: list[str] = []
        self._waits_for: re.Pattern[str] | None = None
        """Pattern of the end of a long part, which is not searched again with each piece."""

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be passed on."""
        if self._waits_for is not None and self._waits_for.search(piece) is None:
            self._held.append(piece)
            return ""
        text = "".join((*self._held, piece))
        last_part = 1 + max(text.rfind(each) for each in _NO_PART)
        unfinished = _UNFINISHED.search(text, last_part)
        end = len(text) if unfinished is None else unfinished.start()
        self._waits_for = next((ends for begins, ends in _LONG_PARTS if begins.match(text, end)), None)
        # Of what is passed on now: what would make a tag of it may stand in what is held.
        after_tags = 1 + max(text.rfind(each, 0, end) for each in ">=")
        tag = _MAY_BE_TAG.search(text, after_tags, end)
        if tag is not None:
            end = tag.start()
            if _UNFINISHED_TAG.match(text, end):
                self._waits_for = _TAG_IS_CLEAR if len(text) > end + 1 else None
        self._held = [text[end:]]
        return neutral(text[:end], self._known)

    def end(self) -> str:
        """Return the rest, when no piece follows."""
        return neutral("".join(self._held), self._known)
