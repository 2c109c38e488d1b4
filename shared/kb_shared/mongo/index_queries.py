"""Queries of the search indexes of a KB, which lag behind its collection by a second or more.

They return ids and scores only. The chunks, and whether they may be shown, are read from the collection afterwards, by
`found_chunks`. Each function raises SearchUnavailable if MongoDB has no Atlas Search.

- Vector search: https://www.mongodb.com/docs/atlas/atlas-vector-search/vector-search-stage/
- Full-text search: https://www.mongodb.com/docs/atlas/atlas-search/query-syntax/
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kb_shared.mongo.chunk_indexes import SPELLINGS_PATH, TEXT_INDEX, TEXT_PATHS, VECTOR_INDEX
from kb_shared.mongo.database import Row, in_one_batch
from kb_shared.mongo.search_indexes import search_required
from kb_shared.mongo.vectors import Chunks

if TYPE_CHECKING:  # numpy
    from kb_shared.mongo.vector import Vector


MOST_CLAUSES: Final = 1_024
"""Number of clauses that Lucene takes in a query; one more is an error. A word is one in each path."""
_RANGE_CLAUSES: Final = 6
"""Clauses of a range of numbers. A date has 3, a string 2."""
_SPELLED_WEIGHT: Final = 1.0
"""Weight of another spelling of something as a whole. The weights were chosen on SciFact and on strings of our own."""
_WITHIN_WEIGHT: Final = 0.1
"""Weight of a word of the query that is a part of a word in the text."""
_PARTS_WEIGHT: Final = 0.2
"""Weight of a word that is only a part of another one in the text or in the query, or has its accents left out."""


@dataclass(frozen=True, slots=True)
class QueryWords:
    """Words of a query, no more than a query may have."""

    text: str
    spelled: Sequence[str] = ()
    """Other spellings of what is in the query."""
    parts: Sequence[str] = ()
    """Words that are parts of words of the query, and words without their accents."""
    has_spellings: bool = False
    """True if the index has such terms of its chunks."""


def count_paths(*, has_spellings: bool) -> int:
    return len(TEXT_PATHS) + has_spellings


def count_clauses(operator: Any) -> int:
    """Count the clauses that Lucene makes of an operator of `$search` that filters, or of several."""
    if isinstance(operator, list):
        return sum(map(count_clauses, operator))
    if not isinstance(operator, dict):
        return 0
    if "range" in operator:
        bounds = [bound for name, bound in operator["range"].items() if name != "path"]
        return max(
            3 if isinstance(bound, datetime) else 2 if isinstance(bound, str) else _RANGE_CLAUSES for bound in bounds
        )
    if "compound" in operator:
        return sum(map(count_clauses, operator["compound"].values()))
    return 1


async def query_vector_index(
    chunks: Chunks,
    query: "Vector",
    *,
    limit: int,
    query_filter: Mapping[str, Any],
    exact: bool,
) -> dict[str, float]:
    """Find the chunks whose vectors are most similar to `query`, among them retired chunks.

    Args:
        query_filter: Compiled filter; `organization_id` and `kb_id` are added outside of it.
        exact: True to compare with all chunks instead of walking the graph; for small KBs.

    Returns:
        (1 + cos) / 2 by chunk id, best first.
    """
    stage = vector_search_stage(chunks, query, limit=limit, query_filter=query_filter, exact=exact)
    with search_required():
        hits = await chunks.collection.aggregate(
            [stage, {"$project": {"_id": 1, "score": {"$meta": "vectorSearchScore"}}}],
            batchSize=in_one_batch(limit),
        )
    return {hit["_id"]: hit["score"] for hit in await hits.to_list()}


def vector_search_stage(
    chunks: Chunks, query: "Vector", *, limit: int, query_filter: Mapping[str, Any], exact: bool
) -> Row:
    """Build the stage `$vectorSearch`."""
    from kb_shared.mongo.vector import to_binary  # numpy

    stage: Row = {
        "index": VECTOR_INDEX,
        "path": "embedding",
        "queryVector": to_binary(query),
        "limit": limit,
        "filter": chunks.scope | ({"$and": [dict(query_filter)]} if query_filter else {}),
    }
    stage |= {"exact": True} if exact else {"numCandidates": min(10_000, max(20 * limit, 200))}
    return {"$vectorSearch": stage}


async def query_text_index(
    chunks: Chunks, words: QueryWords, *, limit: int, filters: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Find the chunks that contain words of a query, among them retired chunks.

    Args:
        filters: Compiled operators of `$search`; `organization_id` and `kb_id` are added to them.

    Returns:
        BM25 score by chunk id, best first.
    """
    with search_required():
        hits = await chunks.collection.aggregate(
            [
                full_text_search_stage(chunks, words, filters),
                {"$limit": limit},
                {"$project": {"_id": 1, "score": {"$meta": "searchScore"}}},
            ],
            batchSize=in_one_batch(limit),
        )
    return {hit["_id"]: hit["score"] for hit in await hits.to_list()}


def full_text_search_stage(chunks: Chunks, words: QueryWords, filters: Sequence[Mapping[str, Any]]) -> Row:
    """Build the stage `$search`."""
    scope = [{"equals": {"path": path, "value": value}} for path, value in chunks.scope.items()]
    compound = {
        "must": [_words_operator(words)],
        "filter": [*scope, *filters],
    }
    return {"$search": {"index": TEXT_INDEX, "compound": compound}}


def _words_operator(words: QueryWords) -> Row:
    as_written = {"text": {"path": list(TEXT_PATHS), "query": words.text}}
    if not words.has_spellings:
        return as_written
    everywhere = [*TEXT_PATHS, SPELLINGS_PATH]
    should = [as_written, _weighted(SPELLINGS_PATH, words.text, _WITHIN_WEIGHT)]
    if words.spelled:
        should.append(_weighted(everywhere, " ".join(words.spelled), _SPELLED_WEIGHT))
    if words.parts:
        should.append(_weighted(everywhere, " ".join(words.parts), _PARTS_WEIGHT))
    return {"compound": {"should": should}}


def _weighted(path: str | list[str], query: str, weight: float) -> Row:
    return {"text": {"path": path, "query": query, "score": {"boost": {"value": weight}}}}


async def any_in_text_index(chunks: Chunks, document_id: str, ids: Collection[str]) -> bool:
    """Return whether the text index has one of these chunks of a document."""
    filters = [
        {"equals": {"path": path, "value": value}} for path, value in chunks.filter_document(document_id).items()
    ]
    with search_required():
        hits = await chunks.collection.aggregate(
            [
                {"$search": {"index": TEXT_INDEX, "compound": {"filter": filters}}},
                {"$match": {"_id": {"$in": list(ids)}, **chunks.scope}},
                {"$limit": 1},
                {"$project": {"_id": 1}},
            ]
        )
    return bool(await hits.to_list())


async def any_in_vector_index(chunks: Chunks, document_id: str, ids: Collection[str], *, dimensions: int) -> bool:
    """Return whether the vector index has one of these chunks of a document."""
    import numpy as np

    stage = vector_search_stage(
        chunks,
        np.ones(dimensions, np.float32),  # any vector: all chunks of the document are found
        limit=10_000,
        query_filter={"document_id": document_id},
        exact=True,
    )
    with search_required():
        hits = await chunks.collection.aggregate(
            [stage, {"$match": {"_id": {"$in": list(ids)}, **chunks.scope}}, {"$limit": 1}, {"$project": {"_id": 1}}]
        )
    return bool(await hits.to_list())
