"""One ranking out of two: reciprocal rank fusion, weighted by what the query looks like. Pure.

The scores of a vector index and of BM25 mean different things, so only their ranks are added up. Which leg to trust
more depends on the query: whoever types `INV-2024-0017` wants that word, and vectors know nothing of it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import Final, NamedTuple

from kb_search.support import supported

K: Final = 60
"""How little the first ranks stand out; the usual value."""
_SAME: Final = 10**5
"""Scores that agree in their first five decimals are the same: the order of additions decides what comes after."""


class Shape(StrEnum):
    """Kind of query, by what it consists of."""

    WORDS = "words"
    MIXED = "mixed"
    IDENTIFIER = "identifier"


@dataclass(frozen=True, slots=True)
class Weights:
    vector: float
    text: float
    support: float = 0.0
    """Share of what the words found in further chunks of a document."""


WEIGHTS: Final[Mapping[Shape, Weights]] = {
    Shape.WORDS: Weights(vector=0.99, text=1.0),
    Shape.MIXED: Weights(vector=0.95, text=1.0),
    # Just enough to order what the words leave equal.
    Shape.IDENTIFIER: Weights(vector=0.01, text=1.0),
}
WEIGHTS_OF_WORDS_ALONE: Final[Mapping[Shape, Weights]] = {
    Shape.WORDS: Weights(vector=0.0, text=1.0, support=0.15),
    Shape.MIXED: Weights(vector=0.0, text=1.0, support=0.15),
    # A document that repeats a name is no more what was asked for.
    Shape.IDENTIFIER: Weights(vector=0.0, text=1.0),
}
"""Both chosen by `benchmarks.retrieval_quality.weights`, on other queries than those that figures are given for."""

_AROUND: Final = "\"'`()[]{}<>.,;:!?\u201c\u201d\u2018\u2019\u00ab\u00bb"
_IDENTIFIER: Final = re.compile(
    r"""
    (?=.*\d)[^\s]*                 # with a digit: codes, numbers, versions, dates
    | [^\W_]+(?:[._\\:@#]+[^\W_]+)+  # parts joined without a space: names with dots, paths, addresses
    | [a-z]+(?:[A-Z][a-z]*)+       # camelCase
    | (?:[A-Z][a-z]+){2,}          # PascalCase
    | [A-Z]{2,}(?:[-_][A-Z]+)*     # ALL CAPITALS
    """,
    re.VERBOSE,
)


def shape_of(query: str) -> Shape:
    """Tell whether a query names things, says something, or both."""
    words = [word for word in (part.strip(_AROUND) for part in query.split()) if word]
    if len(words) > 2 and query.isupper():
        # Shouted, so that capitals say nothing.
        words = [word.lower() for word in words]
    identifiers = sum(1 for word in words if _IDENTIFIER.fullmatch(word))
    if not identifiers:
        return Shape.WORDS
    return Shape.IDENTIFIER if identifiers == len(words) else Shape.MIXED


class Candidate(NamedTuple):
    """A chunk that an index found; a score is None where that leg did not find it."""

    chunk_id: str
    vector: float | None
    """(1 + cos) / 2."""
    text: float | None
    """BM25."""
    fused: float

    @property
    def order(self) -> tuple[float, float, float]:
        """Sorts the best first, as far as scores go."""
        return -self.fused, -(self.vector or 0.0), -(self.text or 0.0)


def fuse(vector: Mapping[str, float], text: Mapping[str, float], weights: Weights) -> list[Candidate]:
    """Rank all that either leg found, the best first; the order in which the legs list their hits makes no difference.

    Args:
        vector, text: scores by chunk id; empty for a leg that was not asked. Candidates have them as they are: support
            changes ranks only.
    """
    of_vector = _worth(vector, weights.vector).get
    of_text = _worth(supported(text, weights.support), weights.text).get
    by_vector, by_text = vector.get, text.get
    found = [
        (
            -(of_vector(chunk_id, 0.0) + of_text(chunk_id, 0.0)),
            -by_vector(chunk_id, 0.0),
            -by_text(chunk_id, 0.0),
            chunk_id,
        )
        for chunk_id in vector.keys() | text.keys()
    ]
    # Best first, and what is equal by its id: as `Candidate.order` says, but compared in C.
    found.sort()
    return [
        # Not by its own constructor: hundreds of them in each search are made three times as fast.
        tuple.__new__(Candidate, (chunk_id, by_vector(chunk_id), by_text(chunk_id), -fused))
        for fused, _, _, chunk_id in found
    ]


def _worth(scores: Mapping[str, float], weight: float) -> dict[str, float]:
    """Return what each rank is worth, from rank 1 on; equal scores share a rank, so that no tie is broken by chance."""
    worth: dict[str, float] = {}
    of_rank, last = 0.0, -1
    for rank, (chunk_id, exact) in enumerate(sorted(scores.items(), key=itemgetter(1), reverse=True), K + 1):
        # Rounded: `round` takes several times as long.
        score = int(exact * _SAME + 0.5)
        if score != last:
            of_rank, last = weight / rank, score
        worth[chunk_id] = of_rank
    return worth
