"""Addresses in answers: a document could have had the model carry what it knows to one, by a link or an image. Pure.

No link or image of Markdown is left, only addresses as they stand, of which programs make links. One that the run did
not find or was not given is written so that none does: `https[:]//example.com`. Code is no exception, since programs do
not agree on what is code.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

_NO_PART: Final = " \t\n\r\f\v<"
_ADDRESS: Final = re.compile(rf"(?:(?:https?|ftp):|www\.)[^{_NO_PART}]*", re.IGNORECASE)
"""As far as any program would take it for a part of the address."""
_END: Final = re.compile(f"[{_NO_PART}]")
_BEGINNING: Final = re.compile(r"(https?|ftp|www)([:.])", re.IGNORECASE)
_CLOSED_BEFORE: Final = re.compile(r"[)\]}>\"'`|]")
"""Of an address among other text, such as in Markdown of its own."""
_NO_PART_AT_END: Final = "?!.,:;*_~'\"`|)]}>/"
_DESTINATION: Final = re.compile(r"\](?=[(:])")
"""Before where a link, an image or the definition of one leads."""
_UNFINISHED: Final = re.compile(rf"(?:{_ADDRESS.pattern}|h|ht|htt|https?|f|ft|ftp|w{{1,3}}|\])\Z", re.IGNORECASE)
"""What a piece can end with that the next one has a say in."""


def addresses_in(texts: Iterable[str]) -> frozenset[str]:
    """All addresses in texts that a run was given or has found."""
    return frozenset(each for text in texts for whole in _ADDRESS.findall(text) for each in _read(whole))


def _read(whole: str) -> Iterator[str]:
    yield whole.rstrip(_NO_PART_AT_END)
    yield _CLOSED_BEFORE.split(whole, maxsplit=1)[0].rstrip(_NO_PART_AT_END)


def neutral(text: str, known: frozenset[str]) -> str:
    """An answer from which nothing leads anywhere but to the `known` addresses, and to those only by a click."""

    def kept(address: re.Match[str]) -> str:
        if address[0].rstrip(_NO_PART_AT_END) in known:
            return address[0]
        # Also where another begins in it.
        return _BEGINNING.sub(r"\1[\2]", address[0])

    return _DESTINATION.sub("] ", _ADDRESS.sub(kept, text))


class NeutralPieces:
    """The same for an answer that comes in pieces: an address waits for its end."""

    def __init__(self, known: frozenset[str]) -> None:
        self._known = known
        self._held: list[str] = []
        self._holds_address = False

    def take(self, piece: str) -> str:
        """What can be passed on after this piece."""
        if self._holds_address and _END.search(piece) is None:
            # An address of many pieces is not looked at again with each of them.
            self._held.append(piece)
            return ""
        text = "".join((*self._held, piece))
        begins = 1 + max(text.rfind(each) for each in _NO_PART)
        unfinished = _UNFINISHED.search(text, begins)
        end = len(text) if unfinished is None else unfinished.start()
        self._held = [text[end:]]
        self._holds_address = _ADDRESS.match(text, end) is not None
        return neutral(text[:end], self._known)

    def end(self) -> str:
        """What is left when no piece follows."""
        return neutral("".join(self._held), self._known)
