"""Answers as they are shown: without marks of what was never found, and without what leads or loads. Pure."""

from collections.abc import Callable

from kb_search.runs.addresses import NeutralPieces, neutral
from kb_search.runs.marks import KnownMarkPieces, with_known_marks


def clean_text(text: str, *, is_known: Callable[[int], bool], addresses: frozenset[str]) -> str:
    """Return a text of an answer as it may be shown.

    Args:
        text: as the model wrote it.
        is_known: whether a passage of the run has this number.
        addresses: that the run was given or has found.
    """
    # Addresses come last: what is left when a mark goes may make one.
    return neutral(with_known_marks(text, is_known), addresses)


class CleanPieces:
    """The same for an answer that comes in pieces."""

    def __init__(self, is_known: Callable[[int], bool], addresses: frozenset[str]) -> None:
        self._marks = KnownMarkPieces(is_known)
        self._addresses = NeutralPieces(addresses)

    def feed(self, piece: str) -> str:
        """Take the next piece; return the text that can be passed on."""
        return self._addresses.feed(self._marks.feed(piece))

    def end(self) -> str:
        """Return the rest, when no piece follows."""
        return self._addresses.feed(self._marks.end()) + self._addresses.end()
