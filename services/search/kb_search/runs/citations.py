"""Resolves the citations of an answer to passages of its run. Pure."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

from kb_search.runs.json_strings import clean_string
from kb_search.runs.mark_notation import CitableNumbers
from kb_search.runs.marks import find_numbers, remove_all_marks
from kb_search.runs.passages import CitedPassage, RunPassages

_JSON_TEXT: Final = re.compile(r'"(?>(?:[^"\\]|\\.)*)(?:"|\\?\Z)(\s*:)?', re.DOTALL)
"""A string of JSON, with the colon after it if it is a name. A string that is not closed ends with the text."""
_USUAL_PASSAGES: Final = 20
"""Passages that an answer is thought to have had of which nothing else is known."""


@dataclass(frozen=True, slots=True)
class Citations:
    passages: Sequence[CitedPassage]
    """Cited passages in the order of their first mention, each once."""
    dropped: int
    """Number of citations that no passage of the run has."""


def resolve_citations(answer: str, book: RunPassages, *, is_json: bool = False) -> Citations:
    """Resolve every citation of an answer (in JSON: of its strings); drop those that no search returned."""
    texts = list(_texts_of(json.loads(answer))) if is_json else [answer]
    citable = book.citable()
    numbers = dict.fromkeys(chain.from_iterable(find_numbers(text, citable) for text in texts))
    found = [(number, book.find(number)) for number in numbers]
    return Citations(
        [passage for _, passage in found if passage is not None], sum(passage is None for _, passage in found)
    )


def remove_marks(answer: str, *, highest: int = _USUAL_PASSAGES, is_json: bool = False) -> str:
    """Remove all citations from an earlier answer: its numbers mean other passages in this run.

    Args:
        answer: Answer as its caller got it.
        highest: Greatest number that it cites.
        is_json: Whether the answer follows a schema, so that only its strings cite.
    """
    remove = partial(remove_all_marks, citable=CitableNumbers(highest))
    if not is_json:
        return remove(answer)
    return _JSON_TEXT.sub(lambda text: text[0] if text[1] else clean_string(text[0], remove), answer)


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
