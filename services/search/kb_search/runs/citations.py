"""Which passages an answer cites. Pure."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from kb_search.runs.passages import Passage, PassageBook

_CODE: Final = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.DOTALL)
"""Where `[1]` is an index and no citation."""
_CITED: Final = re.compile(r"\[(\d{1,6}(?:\s*,\s*\d{1,6})*)\]")
_JSON_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)(\s*:)?', re.DOTALL)
"""With the colon behind it if it is a name. A string that is not closed ends with the text."""
_REMOVABLE: Final = re.compile(rf"[ \t]?{_CITED.pattern}")


@dataclass(frozen=True, slots=True)
class Citations:
    passages: Sequence[Passage]
    """In the order of their first mention, each once."""
    dropped: int
    """Numbers that no passage of the run has."""


def citations_of(answer: str, book: PassageBook, *, is_json: bool = False) -> Citations:
    """Resolve every `[n]` and `[n, m]` of an answer, of JSON in its texts; what no search returned is dropped."""
    texts = list(_texts_of(json.loads(answer))) if is_json else [answer]
    numbers = dict.fromkeys(chain.from_iterable(map(_numbers, texts)))
    found = [(number, book.find(number)) for number in numbers]
    return Citations(
        [passage for _, passage in found if passage is not None], sum(passage is None for _, passage in found)
    )


def without_unknown(answer: str, book: PassageBook) -> str:
    """An answer that is no JSON, without the marks of what was never returned in this run."""
    return _marked(answer, lambda number: book.find(number) is not None)


def without_marks(answer: str, *, is_json: bool = False) -> str:
    """An answer of an earlier run, whose numbers mean nothing in this one; of JSON only its texts cite."""
    if not is_json:
        return _marked(answer, lambda _: False)
    return _JSON_TEXT.sub(lambda text: text[0] if text[1] else _marked(text[0], lambda _: False), answer)


def _marked(answer: str, is_kept: Callable[[int], bool]) -> str:
    def kept(mark: re.Match[str]) -> str:
        numbers = _numbers_in(mark[1])
        known = [number for number in numbers if is_kept(number)]
        if known == numbers:
            return mark[0]
        before = mark[0][: mark[0].index("[")]
        return f"{before}[{', '.join(map(str, known))}]" if known else ""

    # Splitting by a group gives the code at the odd places.
    pieces = _CODE.split(answer)
    return "".join(piece if place % 2 else _REMOVABLE.sub(kept, piece) for place, piece in enumerate(pieces))


def _numbers(text: str) -> Iterator[int]:
    for prose in _CODE.split(text)[::2]:
        for group in _CITED.findall(prose):
            yield from _numbers_in(group)


def _numbers_in(group: str) -> list[int]:
    return [int(number) for number in group.split(",")]


def _texts_of(value: Any) -> Iterator[str]:
    # No recursion: how deep an answer is nested is the model's choice.
    left = [value]
    while left:
        match left.pop():
            case str() as text:
                yield text
            case list() as items:
                left += reversed(items)
            case dict() as fields:
                left += reversed(fields.values())
