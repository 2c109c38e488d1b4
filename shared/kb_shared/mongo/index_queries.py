"""Questions to the search indexes of a KB, which trail its collection by a second or more.

The answers are ids and scores; what a chunk is and whether it may be shown is read from the collection afterwards,
by `found_chunks`. Each of them raises SearchUnavailable where MongoDB has no Atlas search.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kb_shared.mongo.chunk_indexes import TEXT_INDEX, TEXT_PATHS, VECTOR_INDEX
from kb_shared.mongo.database import Row, in_one_batch
from kb_shared.mongo.search_indexes import search_required
from kb_shared.mongo.vectors import Chunks

if TYPE_CHECKING:  # numpy
    from kb_shared.mongo.vector import Vector


async def nearest(
    chunks: Chunks,
    query: "Vector",
    *,
    limit: int,
    query_filter: Mapping[str, Any],
    exact: bool,
) -> dict[str, float]:
    """Ask the search index, which knows retired chunks too.

    Args:
        query_filter: compiled; `organization_id` and `kb_id` are added outside of it.
        exact: compare with every chunk instead of walking the graph; for small KBs.
    Returns:
        (1 + cos) / 2 by chunk id, best first; content must be read from the collection.
    """
    from kb_shared.mongo.vector import to_binary  # numpy

    stage: Row = {
        "index": VECTOR_INDEX,
        "path": "embedding",
        "queryVector": to_binary(query),
        "limit": limit,
        "filter": chunks.scope | ({"$and": [dict(query_filter)]} if query_filter else {}),
    }
    stage |= {"exact": True} if exact else {"numCandidates": min(10_000, max(20 * limit, 200))}
    with search_required():
        hits = await chunks.collection.aggregate(
            [{"$vectorSearch": stage}, {"$project": {"_id": 1, "score": {"$meta": "vectorSearchScore"}}}],
            batchSize=in_one_batch(limit),
        )
    return {hit["_id"]: hit["score"] for hit in await hits.to_list()}


async def mentioning(
    chunks: Chunks, words: str, *, limit: int, filters: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Ask the index of words, which knows retired chunks too.

    Args:
        filters: operators of `$search`, compiled; `organization_id` and `kb_id` are added to them.
    Returns:
        BM25 by chunk id, best first; content must be read from the collection.
    """
    scope = [{"equals": {"path": path, "value": value}} for path, value in chunks.scope.items()]
    compound = {
        "must": [{"text": {"path": list(TEXT_PATHS), "query": words}}],
        "filter": [*scope, *filters],
    }
    with search_required():
        hits = await chunks.collection.aggregate(
            [
                {"$search": {"index": TEXT_INDEX, "compound": compound}},
                {"$limit": limit},
                {"$project": {"_id": 1, "score": {"$meta": "searchScore"}}},
            ],
            batchSize=in_one_batch(limit),
        )
    return {hit["_id"]: hit["score"] for hit in await hits.to_list()}


async def any_in_text_index(chunks: Chunks, document_id: str, ids: Collection[str]) -> bool:
    """Return whether the word index has one of these chunks of a document."""
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
