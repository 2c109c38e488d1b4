"""Queries the search indexes of a KB: ids and scores, and an error instead of an empty result that means nothing."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kb_search.retrieval.fusion import TEXT_ONLY_WEIGHTS, WEIGHTS, Candidate, classify_query, fuse
from kb_search.retrieval.query import SearchQuery
from kb_search.retrieval.search_index import map_index_errors, require_queryable
from kb_search.retrieval.selection import LIMIT_GROWTH, MAX_CANDIDATES, end_of_ties, next_limit
from kb_search.retrieval.stopwatch import Stopwatch
from kb_shared.concurrency.concurrent_tasks import run_all
from kb_shared.mongo import index_queries
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, VECTOR_INDEX
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.vector import Vector
from kb_shared.mongo.vectors import Chunks


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """One KB to be searched, with the query as this KB needs it."""

    kb: KnowledgeBase
    chunks: Chunks
    query_filter: Row
    """Filter of `$vectorSearch` and of the rows."""
    text_filters: Sequence[Row]
    """The same filter as operators of `$search`, all of which must match."""
    exact: bool
    """True if the query is compared with all vectors instead of walking the graph."""
    is_small: bool
    """True if counting all chunks is faster than querying an index again."""
    vector: Vector | None = None
    """Vector of the query; None if the mode uses none, or if the provider gave none."""


@dataclass(frozen=True, slots=True)
class RankedCandidates:
    """Candidates from the indexes of one KB, best first."""

    candidates: Sequence[Candidate]
    exhausted: bool
    """True if the indexes have no other candidates."""
    text_exhausted: bool
    """True if the text index has no other candidates."""
    may_be_exhausted: bool
    """True if there may be no others: the text index has none, and the vector index returned fewer than its limit."""
    all_text_scores: Mapping[str, float] | None = None
    """Scores of all chunks that the text index finds; None if it may find more."""


async def query_legs(
    target: SearchTarget,
    query: SearchQuery,
    *,
    limit: int,
    stopwatch: Stopwatch,
    all_text_scores: Mapping[str, float] | None = None,
) -> RankedCandidates:
    """Query the legs of the query's mode concurrently, each for its best `limit` chunks, and fuse their ranks.

    What a leg returns decides whether there may be more candidates than these:

    1. Text leg, fewer than asked for: `$search` continues until it has as many as `$limit`, so a short result is
       complete. A later call with a higher `limit` gets it as `all_text_scores` and does not query this leg again.
    2. Vector leg, `limit` chunks: there may be more.
    3. Vector leg, fewer than `limit`: `$vectorSearch` takes `limit` ids from its index and then drops those that are
       no longer in the collection, so a short result may be complete or not (`may_be_exhausted`). Only with
       `limit` = 10,000, the most that it may be asked for, it counts as complete (`exhausted`): otherwise ten thousand
       better chunks would have been deleted within the seconds by which the index lags.

    Example: limit 100, a KB with 90 matching chunks, 3 of which were deleted a second ago. Each leg returns 87. The
    text leg is exhausted. The vector leg may be: the same 87 come back if the index has 300 chunks and 13 of its best
    100 were deleted. So the caller counts, or asks again with a higher limit.

    The limit of the text leg is at least 100: further chunks of a document raise the score of its best one
    (`document_support`), so chunks below `limit` change the order above it.

    Args:
        all_text_scores: From an earlier call, if its text leg was exhausted.

    Raises:
        RequestError: 503, an index that is needed can't be queried.
    """
    text_limit = next_limit(limit) if query.candidates_of_leg is None else limit
    uses_vectors = target.vector is not None
    legs = {}
    if uses_vectors:
        legs["vector"] = complete_ties(partial(_query_vector_leg, target, stopwatch=stopwatch), limit)
    if query.uses_text and all_text_scores is None:
        legs["text"] = complete_ties(partial(_query_text_leg, target, query, stopwatch=stopwatch), text_limit)
    answers = dict(zip(legs, await run_all(legs.values()), strict=True))
    vector, text = answers.get("vector", _NOT_ASKED), answers.get("text", _NOT_ASKED)
    if "text" in answers and text.is_short:
        all_text_scores = text.scores
    text_exhausted = all_text_scores is not None or not query.uses_text
    has_fewer_vectors = uses_vectors and vector.is_short
    vectors_exhausted = not uses_vectors or (has_fewer_vectors and limit == MAX_CANDIDATES)
    weights = (WEIGHTS if uses_vectors else TEXT_ONLY_WEIGHTS)[classify_query(query.text)]
    return RankedCandidates(
        fuse(vector.scores, all_text_scores or text.scores, weights),
        exhausted=text_exhausted and vectors_exhausted,
        text_exhausted=text_exhausted,
        may_be_exhausted=text_exhausted and has_fewer_vectors,
        all_text_scores=all_text_scores,
    )


class LegScores(NamedTuple):
    """Best chunks of one index."""

    scores: Mapping[str, float]
    """Scores by chunk id, best first."""
    is_short: bool
    """True if the index returned fewer than it was asked for."""


_NOT_ASKED = LegScores({}, is_short=True)


async def complete_ties(ask: Callable[[int], Awaitable[Mapping[str, float]]], limit: int) -> LegScores:
    """Ask an index for its best `limit` chunks, and for all others with the score of the last one.

    Which of several equal chunks an index returns first is up to the index, and changes with the limit. Without the
    others, pages would repeat some of them and never show some.
    """
    asked = limit
    while True:
        # One more than needed tells whether the last one has an equal.
        wanted = min(asked + 1, MAX_CANDIDATES)
        found = await ask(wanted)
        if len(found) < wanted:
            return LegScores(found, is_short=True)
        end = end_of_ties([*found.values()], limit)
        if end < len(found) or wanted == MAX_CANDIDATES:
            return LegScores(dict([*found.items()][:end]), is_short=False)
        asked = min(asked * LIMIT_GROWTH, MAX_CANDIDATES)


async def _query_vector_leg(target: SearchTarget, limit: int, *, stopwatch: Stopwatch) -> Mapping[str, float]:
    assert target.vector is not None
    with stopwatch.stage("vector"), map_index_errors():
        scores = await index_queries.query_vector_index(
            target.chunks, target.vector, limit=limit, query_filter=target.query_filter, exact=target.exact
        )
    if not scores:
        await require_queryable(target.chunks, VECTOR_INDEX)
    return scores


async def _query_text_leg(
    target: SearchTarget, query: SearchQuery, limit: int, *, stopwatch: Stopwatch
) -> Mapping[str, float]:
    words = query.words_for_index(target.kb.text_normalization, target.text_filters)
    with stopwatch.stage("text"), map_index_errors():
        scores = await index_queries.query_text_index(target.chunks, words, limit=limit, filters=target.text_filters)
    if not scores:
        await require_queryable(target.chunks, TEXT_INDEX)
    return scores
