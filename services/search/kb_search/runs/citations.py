"""Which passages an answer cites. Pure."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from kb_search.runs.json_strings import clean_string
from kb_search.runs.marks import numbers_in, with_known_marks
from kb_search.runs.passages import CitedPassage, PassageBook

_JSON_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)(\s*:)?', re.DOTALL)
"""With the colon behind it if it is a name. A string that is not closed ends with the text."""


@dataclass(frozen=True, slots=True)
class Citations:
    passages: Sequence[CitedPassage]
    """In the order of their first mention, each once."""
    dropped: int
    """Numbers that no passage of the run has."""


def citations_of(answer: str, book: PassageBook, *, is_json: bool = False) -> Citations:
    """Resolve every `[n]` and `[n, m]` of an answer, of JSON in its texts; what no search returned is dropped."""
    texts = list(_texts_of(json.loads(answer))) if is_json else [answer]
    numbers = dict.fromkeys(chain.from_iterable(map(numbers_in, texts)))
    found = [(number, book.find(number)) for number in numbers]
    return Citations(
        [passage for _, passage in found if passage is not None], sum(passage is None for _, passage in found)
    )


def without_marks(answer: str, *, is_json: bool = False) -> str:
    """An answer of an earlier run, whose numbers mean nothing in this one; of JSON only its texts cite."""
    if not is_json:
        return with_known_marks(answer, _is_known_no_more)
    return _JSON_TEXT.sub(_without_marks_in_json, answer)


def _is_known_no_more(_: int) -> bool:
    return False


def _without_marks_in_json(text: re.Match[str]) -> str:
    return text[0] if text[1] else clean_string(text[0], without_marks)


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
