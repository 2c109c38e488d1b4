"""Combines the scores of both legs, each put on a scale from 0 to 1, with weights that depend on the query. Pure.

Scores of a vector index and BM25 scores can't be compared as they are. Ranks can, but they do not tell a clear winner
from the first of many equals: a passage with all the words of a question was behind twenty that had a few of them and
were a little nearer. So each leg gets a scale of its own (ADR 56). The weights depend on the kind of query: a user who
types `INV-2024-0017` wants exactly this word, which an embedding does not represent.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import Final, NamedTuple

from kb_search.retrieval.document_support import add_document_support
from kb_shared.text.spellings import find_spellings

_DEPTH: Final = 100
"""Rank in the vector leg from which a chunk counts as not similar. The leg is always asked for as many."""
_UNRELATED: Final = 0.5
"""Score of the vector index for a cosine of 0."""
_ROUNDING: Final = 10**5
"""Factor for rounding scores to five decimals. Later decimals depend on the order of additions."""


class QueryShape(StrEnum):
    """Kind of a query, by the kinds of its words."""

    WORDS = "words"
    MIXED = "mixed"
    IDENTIFIER = "identifier"


@dataclass(frozen=True, slots=True)
class Weights:
    vector: float
    text: float
    support: float = 0.0
    """Share of the text scores of a document's further chunks (`document_support`)."""


WEIGHTS: Final[Mapping[QueryShape, Weights]] = {
    QueryShape.WORDS: Weights(vector=1.5, text=1.0),
    QueryShape.MIXED: Weights(vector=1.0, text=1.0),
    # The weight of the vectors only decides between chunks with nearly equal scores in the text leg.
    QueryShape.IDENTIFIER: Weights(vector=0.01, text=1.0),
}
TEXT_ONLY_WEIGHTS: Final[Mapping[QueryShape, Weights]] = {
    QueryShape.WORDS: Weights(vector=0.0, text=1.0, support=0.15),
    QueryShape.MIXED: Weights(vector=0.0, text=1.0, support=0.15),
    # A document that repeats a name is not a better result.
    QueryShape.IDENTIFIER: Weights(vector=0.0, text=1.0),
}
"""Weights of searches by text alone.

Both sets were chosen by `benchmarks.retrieval_quality.weights`, on other queries than those of the published figures.
"""

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


def classify_query(query: str) -> QueryShape:
    """Return whether a query consists of identifiers, of words, or of both."""
    words = [word for word in (part.strip(_AROUND) for part in query.split()) if word]
    if len(words) > 2 and query.isupper() and 2 * sum(map(_has_digit, words)) < len(words):
        # All words are in capitals, so capitals do not mark identifiers.
        words = [word.lower() for word in words]
    identifiers = sum(1 for word in words if _IDENTIFIER.fullmatch(word))
    if not identifiers:
        return QueryShape.WORDS
    return QueryShape.IDENTIFIER if identifiers == len(words) or _is_one_thing(query) else QueryShape.MIXED


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _is_one_thing(query: str) -> bool:
    """Return whether all of a query is one size, date or other identifier of several words, such as `M8 x 40`."""
    written = query.strip()
    return any(
        spelling.wholes
        and written[spelling.end :].strip(_AROUND) == ""
        and not written[: spelling.start].strip(_AROUND)
        for spelling in find_spellings(written)
    )


def best_possible(query: str, *, with_vectors: bool, with_text: bool) -> float:
    """Return the fused score of a chunk that is equal to the query and the first of the text leg, of what is asked."""
    weights = (WEIGHTS if with_vectors else TEXT_ONLY_WEIGHTS)[classify_query(query)]
    return weights.vector * with_vectors + weights.text * with_text


class Candidate(NamedTuple):
    """A chunk that an index found; its score and its rank are None of a leg that did not find it."""

    chunk_id: str
    vector: float | None
    """Score of the vector index, (1 + cos) / 2."""
    text: float | None
    """Score of the text index, BM25."""
    fused: float
    vector_rank: int | None
    """Rank in the vector leg, from 1; equal scores share one."""
    text_rank: int | None
    """Rank in the text leg, with the support of the document (`document_support`)."""

    @property
    def order(self) -> tuple[float, float, float]:
        """Return the sort key by scores, best first."""
        return -self.fused, -(self.vector or 0.0), -(self.text or 0.0)


def fuse(vector: Mapping[str, float], text: Mapping[str, float], weights: Weights) -> list[Candidate]:
    """Rank all chunks that either leg found, best first. The order in the arguments makes no difference.

    What a leg did not find has 0 of it: it is at most as good as the last one of the leg.

    Args:
        vector, text: Scores by chunk id; empty for a leg that was not queried. Candidates keep these scores: support
            changes ranks only.
    """
    supported = add_document_support(text, weights.support)
    vector_rank, text_rank = _rank(vector).get, _rank(supported).get
    by_meaning, by_words = _scale_vectors(vector).get, _scale_words(supported).get
    by_vector, by_text = vector.get, text.get
    found = [
        (
            -(weights.vector * by_meaning(chunk_id, 0.0) + weights.text * by_words(chunk_id, 0.0)),
            -by_vector(chunk_id, 0.0),
            -by_text(chunk_id, 0.0),
            chunk_id,
        )
        for chunk_id in vector.keys() | text.keys()
    ]
    # The same order as `Candidate.order`, then by id; tuples are compared in C.
    found.sort()
    return [
        # Without the constructor of Candidate, which takes three times as long, hundreds of times in each search.
        tuple.__new__(
            Candidate,
            (chunk_id, by_vector(chunk_id), by_text(chunk_id), -fused, vector_rank(chunk_id), text_rank(chunk_id)),
        )
        for fused, _, _, chunk_id in found
    ]


def _scale_vectors(scores: Mapping[str, float]) -> dict[str, float]:
    """Return how far each score is from that of an unrelated chunk, 0, to that of an equal one, 1.

    The chunk at `_DEPTH` counts as unrelated: with some models all cosines are above 0.7. If there are fewer chunks,
    the last of them may be a good one, so the zero is nearer to a cosine of 0, the fewer there are.
    """
    if not scores:
        return {}
    best_first = sorted(scores.values(), reverse=True)[:_DEPTH]
    zero = _UNRELATED + (best_first[-1] - _UNRELATED) * len(best_first) / _DEPTH
    width = max(1 - zero, 1 / _ROUNDING)
    return {chunk_id: max(0.0, (_round(score) - zero) / width) for chunk_id, score in scores.items()}


def _scale_words(scores: Mapping[str, float]) -> dict[str, float]:
    """Return each BM25 score as a part of the best one: its scale depends on the words of the query."""
    best = _round(max(scores.values(), default=0.0))
    return {chunk_id: _round(score) / best if best else 0.0 for chunk_id, score in scores.items()}


def _round(score: float) -> float:
    # Not `round`, which takes several times as long.
    return int(score * _ROUNDING + 0.5) / _ROUNDING


def _rank(scores: Mapping[str, float]) -> dict[str, int]:
    """Return ranks by chunk id, from 1. Equal scores share a rank, so that no tie is broken by chance."""
    by_chunk: dict[str, int] = {}
    shared, last = 0, -1.0
    for rank, (chunk_id, exact) in enumerate(sorted(scores.items(), key=itemgetter(1), reverse=True), 1):
        score = _round(exact)
        if score != last:
            shared, last = rank, score
        by_chunk[chunk_id] = shared
    return by_chunk
