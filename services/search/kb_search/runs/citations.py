"""Which passages an answer cites. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kb_search.runs.passages import Passage, PassageBook

_CITED: Final = re.compile(r"\[(\d{1,6}(?:\s*,\s*\d{1,6})*)\]")
_NUMBER: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Citations:
    passages: Sequence[Passage]
    """In the order of their first mention, each once."""
    dropped: int
    """Numbers that no passage of the run has."""


def citations_of(answer: str, book: PassageBook) -> Citations:
    """Resolve every `[n]` and `[n, m]` of an answer; what was never returned in this run is dropped."""
    numbers = dict.fromkeys(int(number) for group in _CITED.findall(answer) for number in _NUMBER.findall(group))
    found = [(number, book.find(number)) for number in numbers]
    return Citations(
        [passage for _, passage in found if passage is not None], sum(passage is None for _, passage in found)
    )


def without_marks(answer: str) -> str:
    """An answer of an earlier run, whose numbers mean nothing in this one."""
    return _CITED.sub("", answer)
