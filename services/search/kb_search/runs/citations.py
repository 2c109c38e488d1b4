"""Resolves the citations of an answer to passages of its run. Pure."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from kb_search.runs.json_strings import clean_string
from kb_search.runs.marks import find_numbers, remove_unknown_marks
from kb_search.runs.passages import CitedPassage, RunPassages

_JSON_TEXT: Final = re.compile(r'"(?>(?:[^"\\]|\\.)*)(?:"|\\?\Z)(\s*:)?', re.DOTALL)
"""A string of JSON, with the colon after it if it is a name. A string that is not closed ends with the text."""


@dataclass(frozen=True, slots=True)
class Citations:
    passages: Sequence[CitedPassage]
    """Cited passages in the order of their first mention, each once."""
    dropped: int
    """Number of citations that no passage of the run has."""


def resolve_citations(answer: str, book: RunPassages, *, is_json: bool = False) -> Citations:
    """Resolve every `[n]` and `[n, m]` of an answer (in JSON: of its strings); drop those that no search returned."""
    texts = list(_texts_of(json.loads(answer))) if is_json else [answer]
    numbers = dict.fromkeys(chain.from_iterable(map(find_numbers, texts)))
    found = [(number, book.find(number)) for number in numbers]
    return Citations(
        [passage for _, passage in found if passage is not None], sum(passage is None for _, passage in found)
    )


def remove_marks(answer: str, *, is_json: bool = False) -> str:
    """Remove all citations from an answer of an earlier run: its numbers mean other passages in this one."""
    if not is_json:
        return remove_unknown_marks(answer, _is_never_known)
    return _JSON_TEXT.sub(_remove_marks_in_json, answer)


def _is_never_known(_: int) -> bool:
    return False


def _remove_marks_in_json(text: re.Match[str]) -> str:
    return text[0] if text[1] else clean_string(text[0], remove_marks)


def _texts_of(value: Any) -> Iterator[str]:
    # No recursion, because the model decides how deep the answer is nested.
    left = [value]
    while left:
        match left.pop():
            case str() as text:
                yield text
            case list() as items:
                left += reversed(items)
            case dict() as fields:
                left += reversed(fields.values())
