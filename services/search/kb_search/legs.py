"""Asks the search indexes of a KB: ids and scores, and an error instead of an empty answer that means nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kb_search.at_once import all_of
from kb_search.fusion import WEIGHTS, Candidate, fuse, shape_of
from kb_search.query import SearchQuery
from kb_search.search_index import refusals_explained, require_queryable
from kb_search.stopwatch import Stopwatch
from kb_shared.embedding.vector import Vector
from kb_shared.mongo import index_queries
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, VECTOR_INDEX
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase
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
    vector: Vector | None = None
    """Of the query, by the KB's model; None where no vectors are asked."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What the indexes of one KB know, the best first."""

    candidates: Sequence[Candidate]
    exhausted: bool
    """There is nothing beyond."""


async def ask(target: Target, query: SearchQuery, *, limit: int, stopwatch: Stopwatch) -> Ranking:
    """Ask the legs of the query's mode at the same time, each for its `limit` best.

    Raises:
        RequestError: 503, an index that is needed can't be asked.
    """
    legs = {"vector": _ask_vectors(target, limit, stopwatch)} if query.asks_vectors else {}
    if query.asks_words:
        legs["text"] = _ask_words(target, query.words, limit, stopwatch)
    asked = await all_of(legs.values())
    scores = dict(zip(legs, asked, strict=True))
    return Ranking(
        fuse(scores.get("vector", {}), scores.get("text", {}), WEIGHTS[shape_of(query.text)]),
        exhausted=all(len(each) < limit for each in asked),
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
