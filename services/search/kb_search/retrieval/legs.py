"""Asks the search indexes of a KB: ids and scores, and an error instead of an empty answer that means nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kb_search.concurrent_tasks import run_all
from kb_search.retrieval.fusion import WEIGHTS, WEIGHTS_OF_WORDS_ALONE, Candidate, fuse, shape_of
from kb_search.retrieval.query import SearchQuery
from kb_search.retrieval.search_index import refusals_explained, require_queryable
from kb_search.retrieval.selection import MOST_CANDIDATES, steady
from kb_search.retrieval.stopwatch import Stopwatch
from kb_shared.mongo import index_queries
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, VECTOR_INDEX
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.vector import Vector
from kb_shared.mongo.vectors import Chunks


@dataclass(frozen=True, slots=True)
class Target:
    """One KB to be searched, with the query as it understands it."""

    kb: KnowledgeBase
    chunks: Chunks
    query_filter: Row
    """For vectors and rows."""
    operators: Sequence[Row]
    """The same for words; all must match."""
    exact: bool
    """Compare with every vector."""
    small: bool
    """So few chunks that they are counted faster than an index is asked once more."""
    vector: Vector | None = None
    """Vector of the query; None if vectors are not searched, or if the provider gave none."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates from the indexes of one KB, best first."""

    candidates: Sequence[Candidate]
    exhausted: bool
    """There is nothing beyond."""
    no_more_words: bool
    """The word index has nothing beyond."""
    doubtful: bool
    """There may be: an index gave fewer than it was asked for, and counts what is gone from the collection as given."""
    words: Mapping[str, float] | None = None
    """All that the index of words has, where that is known."""


async def query_legs(
    target: Target,
    query: SearchQuery,
    *,
    limit: int,
    stopwatch: Stopwatch,
    words: Mapping[str, float] | None = None,
) -> Ranking:
    """Ask the legs of the query's mode at the same time, each for its `limit` best.

    Where that is few, more are asked for by words: chunks that are not wanted support others.

    `$search` goes on until it has as many as its `$limit` or there are no more. `$vectorSearch` does not: its index
    gives `limit` ids, and what is gone by then is missing from the answer. Only of all that it may be asked for is a
    short answer believed: ten thousand better ones would have to be gone within the seconds that the index trails.

    Args:
        words: what an earlier ask found to be all that the index of words has.

    Raises:
        RequestError: 503, an index that is needed can't be asked.
    """
    most_words = steady(limit)
    asks_vectors = target.vector is not None
    legs = {"vector": _ask_vectors(target, limit, stopwatch)} if asks_vectors else {}
    if query.asks_words and words is None:
        legs["text"] = _ask_words(target, query.words(target.kb.text_normalization), most_words, stopwatch)
    asked = await run_all(legs.values())
    scores = dict(zip(legs, asked, strict=True))
    if "text" in scores and len(scores["text"]) < most_words:
        words = scores["text"]
    no_more_words = words is not None or not query.asks_words
    fewer_vectors = asks_vectors and len(scores["vector"]) < limit
    no_more_vectors = not asks_vectors or (fewer_vectors and limit == MOST_CANDIDATES)
    weights = (WEIGHTS if asks_vectors else WEIGHTS_OF_WORDS_ALONE)[shape_of(query.text)]
    return Ranking(
        fuse(scores.get("vector", {}), words or scores.get("text", {}), weights),
        exhausted=no_more_words and no_more_vectors,
        no_more_words=no_more_words,
        doubtful=no_more_words and fewer_vectors,
        words=words,
    )


async def _ask_vectors(target: Target, limit: int, stopwatch: Stopwatch) -> Mapping[str, float]:
    assert target.vector is not None
    with stopwatch.stage("vector"), refusals_explained():
        scores = await index_queries.nearest(
            target.chunks, target.vector, limit=limit, query_filter=target.query_filter, exact=target.exact
        )
    if not scores:
        await require_queryable(target.chunks, VECTOR_INDEX)
    return scores


async def _ask_words(target: Target, words: str, limit: int, stopwatch: Stopwatch) -> Mapping[str, float]:
    with stopwatch.stage("text"), refusals_explained():
        scores = await index_queries.mentioning(target.chunks, words, limit=limit, filters=target.operators)
    if not scores:
        await require_queryable(target.chunks, TEXT_INDEX)
    return scores
