"""Judges how well a passage fits its query: strong, fair or weak. Pure.

Two things are known of a passage: which of the query's words it has, and how near it is by its vector. What a cosine
means depends on the model, so only models that were measured have thresholds; with others, and without vectors, the
words decide alone. A judgement claims no more than that: few words and no nearness is weak, whatever the rank.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kb_contracts.api.search import Strength
from kb_search.retrieval.function_words import has_content, leave_out_function_words
from kb_search.retrieval.fusion import QueryShape, classify_query
from kb_search.retrieval.highlighting import MAX_CHARACTERS, terms_of
from kb_search.retrieval.query import Mode, SearchQuery
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.text.spellings import find_spellings

_ORDER: Final[Sequence[Strength]] = ("weak", "fair", "strong")

_MOST_OF_THE_WORDS: Final = 0.85
_HALF_OF_THE_WORDS: Final = 0.5
_SPECIFIC: Final = 3
"""Number of words of a query from which a passage with nearly all of them is strong by this alone."""
_FIRST: Final = 3
"""Ranks by vectors that count as near if the model was not measured, and if the passage has some of the words."""


@dataclass(frozen=True, slots=True)
class ModelScale:
    """Thresholds of the relevance, (1 + cosine) / 2, of a model."""

    noise: float
    """Nearly all passages below are not related to the query: the default of `min_score`."""
    related: float
    near: float


SCALES: Final[Mapping[str, ModelScale]] = {
    "all-MiniLM-L6-v2": ModelScale(noise=0.66, related=0.72, near=0.8),
    "use-multilingual-v3": ModelScale(noise=0.59, related=0.7, near=0.78),
}
"""Scales of the models that were measured (docs/explanation/ranking.md)."""


class WordShare:
    """Tells which part of a query's words a passage has, compared as the text index of its KB compares them."""

    def __init__(self, query: str) -> None:
        self._query = leave_out_function_words(query)
        self._spellings = [*find_spellings(self._query, in_query=True)]
        self._left = MAX_CHARACTERS
        self._wanted: dict[str, frozenset[str]] = {}
        self.is_identifier = classify_query(query) is QueryShape.IDENTIFIER

    def count_words(self, analyzer: str) -> int:
        """Return the number of different words of the query."""
        return len(self._words(analyzer))

    def share_in(self, texts: Iterable[str], *, analyzer: str, has_spellings: bool) -> float:
        """Return the part of the words that the texts have, 0 to 1.

        Nothing is found after `MAX_CHARACTERS` of all texts together: of what was not read, nothing is claimed.
        """
        text = "\n".join(texts)[: self._left]
        self._left -= len(text)
        wanted = self._words(analyzer)
        if not wanted:
            return 0.0
        found = wanted.intersection(terms_of(text, analyzer))
        if has_spellings and self._spellings and len(found) < len(wanted):
            found |= wanted.intersection(self._spelled_in(text, analyzer))
        return len(found) / len(wanted)

    def _words(self, analyzer: str) -> frozenset[str]:
        words = self._wanted.get(analyzer)
        if words is None:
            words = self._wanted[analyzer] = frozenset(terms_of(self._query, analyzer))
        return words

    def _spelled_in(self, text: str, analyzer: str) -> Iterator[str]:
        """Yield the terms of the parts of the query that the text spells in another way."""
        in_text = {term for spelling in find_spellings(text) for term in (*spelling.wholes, *spelling.parts)}
        in_text |= {*terms_of(text, analyzer)}
        for spelling in self._spellings:
            if not in_text.isdisjoint(spelling.wholes):
                yield from terms_of(self._query[spelling.start : spelling.end], analyzer)


def min_relevance(kb: KnowledgeBase, query: SearchQuery) -> float | None:
    """Return the minimum of relevance of a search of a KB: that of the query, of the KB, or of its model.

    The one of the model is for hybrid searches alone: there the text index vouches for what has the words. It is not
    for searches of named documents, whose caller knows that they are about the subject, nor for `what is it about`.
    """
    chosen = kb.min_score if query.min_score is None else query.min_score
    if chosen is not None or query.mode is not Mode.HYBRID:
        return chosen
    scale = SCALES.get(kb.embedding_model)
    is_open = bool(query.criteria.document_ids) or not has_content(query.text)
    return None if scale is None or is_open else scale.noise


def judge(
    share: float,
    *,
    words: int,
    is_identifier: bool,
    relevance: float | None,
    scale: ModelScale | None,
    rank: int | None,
) -> Strength:
    """Judge a passage by itself.

    Args:
        share: Part of the query's words that it has, 0 to 1.
        words: Number of the query's words.
        is_identifier: True if the query is nothing but identifiers.
        relevance: (1 + cosine) / 2; None if no vectors were compared.
        scale: Scale of the model; None if it was not measured.
        rank: Rank by vectors; None if the index did not return it.
    """
    by_words = (share >= _HALF_OF_THE_WORDS) + (share >= _MOST_OF_THE_WORDS)
    if relevance is None or scale is None:
        by_meaning = int(rank is not None and rank <= _FIRST and share > 0)
    else:
        by_meaning = (relevance >= scale.related) + (relevance >= scale.near)
    is_specific = is_identifier or words >= _SPECIFIC
    if (by_words > 1 and is_specific) or (by_words and by_meaning and by_words + by_meaning > 2):
        return "strong"
    return "fair" if by_words or by_meaning else "weak"


def strongest(strengths: Iterable[Strength]) -> Strength:
    return max(strengths, key=_ORDER.index)


def never_rising(strengths: Iterable[Strength]) -> list[Strength]:
    """Return the strengths, none greater than the one before: the order is known better than the strength."""
    falling: list[Strength] = []
    for strength in strengths:
        falling.append(min(strength, falling[-1], key=_ORDER.index) if falling else strength)
    return falling
