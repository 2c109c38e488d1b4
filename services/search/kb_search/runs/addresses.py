"""Neutralizes addresses in answers: a document may make the model send data to one, by a link or an image. Pure.

- A link or an image of Markdown becomes text followed by its address.
- A citation that follows an address is set apart from it: programs would make it a part of the link.
- An address that the run was neither given nor found is changed so that no program makes a link of it:
  `https[:]//example.com`. So is one that only passages have of which the answer cites none.
- An HTML tag that has attributes, or loads what its text names, is broken: `< img src=...`. So is a link with another
  scheme: `< smb://example.com>`.
- An HTML reference to a character that can be part of an address is escaped: `https&amp;#58;//`.

Code is treated in the same way, because programs do not agree on what is code.
"""

import html
import re
import string
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_NO_PART: Final = " \t\n\r\f\v<"
_ADDRESS: Final = re.compile(rf"(?:(?:https?|ftp)\\?:|www\\?\.)[^{_NO_PART}]*", re.IGNORECASE)
"""An address, as long as any program would read it. Markdown drops a backslash before a colon or a dot."""
_END: Final = re.compile(f"[{_NO_PART}]")
_BEGINNING: Final = re.compile(r"(https?|ftp|www)\\?([:.])", re.IGNORECASE)
_CLOSED_BEFORE: Final = re.compile(r"[)\]}>\"'`|]")
"""Characters that end an address within other text, such as Markdown."""
_NO_PART_AT_END: Final = "?!.,:;*_~'\"`|)]}>/"
_MARK: Final = re.compile(r"\[(?=[1-9])")
"""Beginning of a citation."""
_SHORT_END: Final = re.compile(r"/?[^/]{0,4}")
"""Pattern of a short end of an address. A long one could carry data."""
_DESTINATION: Final = re.compile(r"\](?=[(:])")
"""End of the text of a link, an image or a definition, before its address."""
_REFERENCE: Final = re.compile(
    r"&(?:#0*(?P<decimal>[0-9]{1,7});?|#x0*(?P<hexadecimal>[0-9a-f]{1,6});?|[a-z]+;)", re.IGNORECASE
)
"""Reference to a character, in HTML and in Markdown."""
_ADDRESS_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + ":/\\.@\t\n\r")
"""Characters of addresses. Programs skip the last three when they read one."""
_TAG: Final = re.compile(r"<(?=[a-z])[^>=]*=?", re.IGNORECASE)
"""An HTML tag up to its first attribute that has a value; a name in it may begin with "<"."""
_TAG_BEGINS: Final = re.compile("<(?=[a-z])", re.IGNORECASE)
_OTHER_BEGINS: Final = re.compile(r"<(?=(?:style|script)\b|(?!(?:https?|ftp):)[a-z][a-z0-9+.-]{1,31}:)", re.IGNORECASE)
"""Pattern of a tag whose text can name what is loaded, and of other schemes, such as `<smb://...>`."""
_MAY_BE_TAG: Final = re.compile(r"<(?:[a-z]|\Z)", re.IGNORECASE)
_UNFINISHED_TAG: Final = re.compile(r"<(?:[a-z][^>=]*)?\Z", re.IGNORECASE)
_TAG_IS_CLEAR: Final = re.compile("[>=]")
_LAST_ADDRESS: Final = re.compile(rf"(?:&#x[0-9a-f]*)?{_ADDRESS.pattern}", re.IGNORECASE)
"""An address, with a reference before it: the first letter of `ftp` can be its last digit."""
_UNFINISHED: Final = re.compile(
    rf"(?:{_LAST_ADDRESS.pattern}|h|ht|htt|f|ft|w{{1,2}}|(?:https?|ftp|www)\\?|\]|&#?[0-9a-z]*)\Z", re.IGNORECASE
)
"""Pattern of an end whose meaning depends on the next piece."""

_LONG_PARTS: Final = ((_LAST_ADDRESS, _END), (re.compile("&"), re.compile("[^0-9a-z]", re.IGNORECASE)))
"""Beginnings of parts that can be long, each with the pattern of its end."""


@dataclass(frozen=True, slots=True)
class KnownAddresses:
    """Addresses that answers of a run may link to."""

    given: frozenset[str] = frozenset()
    """Addresses that the run was given by its author and its caller."""
    of_passages: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Addresses of each passage, by its number: an answer links to them only if it cites the passage."""


class LinkedAddresses:
    """Addresses that stay links in one answer: more with each passage that it cites."""

    def __init__(self, known: KnownAddresses) -> None:
        self._given = known.given
        self._cited = set[str]()
        self._uncited = dict(known.of_passages)

    def __contains__(self, address: object) -> bool:
        return address in self._given or address in self._cited

    def cite(self, number: int) -> None:
        """Add the addresses of the passage with this number, if there is one."""
        self._cited.update(self._uncited.pop(number, ()))

    def needs_citation(self, address: str) -> bool:
        """Return whether an address becomes a link once the answer cites a passage that has it."""
        return address not in self and any(address in addresses for addresses in self._uncited.values())


def find_addresses(texts: Iterable[str]) -> frozenset[str]:
    """Find all addresses in texts that a run was given or has found."""
    return frozenset(each for text in texts for whole in _ADDRESS.findall(text) for each in _readings(whole))


def _readings(whole: str) -> Iterator[str]:
    yield whole.rstrip(_NO_PART_AT_END)
    yield _CLOSED_BEFORE.split(whole, maxsplit=1)[0].rstrip(_NO_PART_AT_END)


def neutralize_addresses(text: str, known: Container[str]) -> str:
    """Return the text with no link but plain `known` addresses, which a reader has to click."""

    def neutralize_address(address: re.Match[str]) -> str:
        for beginning in _beginnings(address[0]):
            if _without_end(beginning) in known:
                rest = address[0].removeprefix(beginning)
                return f"{beginning} {_break_addresses(rest)}" if rest else beginning
        return _break_addresses(address[0])

    written_out = _REFERENCE.sub(_escape_reference, text)
    return _DESTINATION.sub("] ", _TAG.sub(_break_tag, _ADDRESS.sub(neutralize_address, written_out)))


def _break_addresses(text: str) -> str:
    """Break an address, and each that begins within it."""
    return _BEGINNING.sub(r"\1[\2]", text)


def _beginnings(address: str) -> Iterator[str]:
    """Yield what may be meant as the address: all of it, or what stands before a citation."""
    yield address
    if (mark := _MARK.search(address)) is not None:
        yield address[: mark.start()]


def _without_end(address: str) -> str:
    """Return an address without what follows it in a text; with it, and so as no known one, if that is long."""
    whole = address.rstrip(_NO_PART_AT_END)
    return whole if _SHORT_END.fullmatch(address, len(whole)) else address


def _break_tag(tag: re.Match[str]) -> str:
    """Break a tag that has attributes or loads what its text names, or a link in angle brackets."""
    begins = _TAG_BEGINS if tag[0].endswith("=") else _OTHER_BEGINS
    return begins.sub("< ", tag[0])


def _escape_reference(reference: re.Match[str]) -> str:
    """Escape a reference if a program would replace it by a character of an address."""
    whole, decimal, hexadecimal = reference[0], reference["decimal"], reference["hexadecimal"]
    # `unescape` fails for a number with thousands of digits.
    number = int(decimal) if decimal else int(hexadecimal, 16) if hexadecimal else None
    character = html.unescape(whole) if number is None else chr(min(number, sys.maxunicode))
    return f"&amp;{whole[1:]}" if character in _ADDRESS_CHARACTERS else whole


class AddressStreamFilter:
    """Neutralizes an answer that is streamed in pieces.

    The end of a piece that may be the beginning of an address or a tag is held until more has arrived. From an address
    that only uncited passages have, all is held until one of them is cited.
    """

    def __init__(self, links: LinkedAddresses) -> None:
        """Construct it.

        Args:
            links: What stays a link. It is told of a citation before the text that contains it is fed.
        """
        self._links = links
        self._held: list[str] = []
        self._uncited: str | None = None
        """Address at the beginning of the held text that waits for a citation."""
        self._waits_for: re.Pattern[str] | None = None
        """Pattern of the end of a long part, which is not searched again with each piece."""

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be passed on."""
        if self._still_waits(piece):
            self._held.append(piece)
            return ""
        text = "".join((*self._held, piece))
        end = _end_of_finished(text, len(text))
        self._waits_for = next((ends for begins, ends in _LONG_PARTS if begins.match(text, end)), None)
        begins, self._uncited = self._find_uncited(text, end)
        if self._uncited is not None:
            end = _end_of_finished(text, begins)
        # The text to pass on may end with the beginning of a tag whose rest is held.
        after_tags = 1 + max(text.rfind(each, 0, end) for each in ">=")
        tag = _MAY_BE_TAG.search(text, after_tags, end)
        if tag is not None:
            end = tag.start()
            if _UNFINISHED_TAG.match(text, end):
                self._waits_for = _TAG_IS_CLEAR if len(text) > end + 1 else None
        self._held = [text[end:]]
        return neutralize_addresses(text[:end], self._links)

    def end(self) -> str:
        """Return the rest, when no piece follows."""
        return neutralize_addresses("".join(self._held), self._links)

    def _still_waits(self, piece: str) -> bool:
        # Held text is searched again at most once for each passage that is cited.
        if self._uncited is not None:
            return self._uncited not in self._links
        return self._waits_for is not None and self._waits_for.search(piece) is None

    def _find_uncited(self, text: str, end: int) -> tuple[int, str | None]:
        """Return where the first address before `end` begins that needs a citation, and this address."""
        for found in _ADDRESS.finditer(text, 0, end):
            written_out = _REFERENCE.sub(_escape_reference, found[0])
            for address in map(_without_end, _beginnings(written_out)):
                if address in self._links:
                    break
                if self._links.needs_citation(address):
                    return found.start(), address
        return end, None


def _end_of_finished(text: str, end: int) -> int:
    """Return where the unfinished part at the end of `text[:end]` begins; `end` if there is none."""
    last_part = 1 + max(text.rfind(each, 0, end) for each in _NO_PART)
    unfinished = _UNFINISHED.search(text, last_part, end)
    return end if unfinished is None else unfinished.start()
