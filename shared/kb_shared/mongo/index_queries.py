"""Queries of the search indexes of a KB, which lag behind its collection by a second or more.

They return ids and scores only. The chunks, and whether they may be shown, are read from the collection afterwards, by
`found_chunks`. Each function raises SearchUnavailable if MongoDB has no Atlas Search.

- Vector search: https://www.mongodb.com/docs/atlas/atlas-vector-search/vector-search-stage/
- Full-text search: https://www.mongodb.com/docs/atlas/atlas-search/query-syntax/
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kb_shared.mongo.chunk_indexes import TEXT_INDEX, TEXT_PATHS, VECTOR_INDEX
from kb_shared.mongo.database import Row, in_one_batch
from kb_shared.mongo.search_indexes import search_required
from kb_shared.mongo.vectors import Chunks

if TYPE_CHECKING:  # numpy
    from kb_shared.mongo.vector import Vector


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
    chunks: Chunks, text: str, *, limit: int, filters: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Find the chunks that contain words of `text`, among them retired chunks.

    Args:
        filters: Compiled operators of `$search`; `organization_id` and `kb_id` are added to them.

    Returns:
        BM25 score by chunk id, best first.
    """
    with search_required():
        hits = await chunks.collection.aggregate(
            [
                full_text_search_stage(chunks, text, filters),
                {"$limit": limit},
                {"$project": {"_id": 1, "score": {"$meta": "searchScore"}}},
            ],
            batchSize=in_one_batch(limit),
        )
    return {hit["_id"]: hit["score"] for hit in await hits.to_list()}


def full_text_search_stage(chunks: Chunks, text: str, filters: Sequence[Mapping[str, Any]]) -> Row:
    """Build the stage `$search`."""
    scope = [{"equals": {"path": path, "value": value}} for path, value in chunks.scope.items()]
    compound = {
        "must": [{"text": {"path": list(TEXT_PATHS), "query": text}}],
        "filter": [*scope, *filters],
    }
    return {"$search": {"index": TEXT_INDEX, "compound": compound}}


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
