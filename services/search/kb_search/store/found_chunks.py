"""Reads the chunks that an index found, and selects those that may be shown.

An index lags behind the collection by a second or more, so it returns chunks that a swap has already retired, and does
not yet return their successors. Rule 1 of docs/explanation/architecture.md must hold all the same: a document is never
missing while it is replaced, and its versions are never mixed. The versions of a chunk are a range: `since` is the
first version of the document that contains it, `until` the last one, null while the chunk is live.

For the hits of each document (`select_visible`), in this order:

1. If some are live, these are shown.
2. Otherwise, if some were retired in the last 30 seconds, those that belong to the newest of their versions are shown.
3. Otherwise the document is not shown.

Example: version 3 replaced chunks A (since 1, until 2) and B (since 2, until 2) by C (since 3), and kept D (since 1).
A search that finds A, B and D shows D. One that finds A and B shows both, as they were together in version 2. One that
finds A and E (since 1, until 1) shows A only: E was not in version 2.

Neighbours of a shown chunk follow the same versions (`select_same_versions`): beside D only live chunks, beside A those
that were in version 2.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from pymongo import ASCENDING

from kb_shared.mongo import document_index
from kb_shared.mongo.database import MongoSession, Row, in_one_batch
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.vectors import Chunks, document_of

SHOWN_AFTER_RETIREMENT = timedelta(seconds=30)
"""Time for which a reader may show a replaced version while its successor is not searchable yet.

Longer than an election (10 to 12 s) and the lag of the next primary's search index together: what was swapped just
before the former primary died is searchable only then.
"""
_SHOWN: Final = dict.fromkeys(
    (
        "document_id",
        "document_name",
        "upload_date",
        "metadata_snapshot",
        "chunk_index",
        "chunk_text",
        "token_count",
        "start",
        "end",
        "page_start",
        "page_end",
        "heading_path",
        "since",
        "until",
    ),
    1,
)
"""Fields of a result, and those that decide whether it may be shown."""


class FoundChunks(NamedTuple):
    """Chunks that an index found, as they are in one snapshot."""

    rows: dict[str, Row]
    """Rows by chunk id. A retired one has `retired_for_ms`, by the server's clock."""
    indexed: set[str]
    """Ids of their documents that are in the KB."""
    live_count: int
    """Number of live chunks in the KB that match the filter, up to `count_up_to`."""
    extra_rows: list[Row]
    """Rows that the extra stages added."""


async def read_found(
    chunks: Chunks,
    session: MongoSession,
    ids: Collection[str],
    *,
    query_filter: Mapping[str, Any],
    with_vectors: Collection[str] = (),
    count_up_to: int = 0,
    extra_stages: Sequence[Row] = (),
    max_extra_rows: int = 0,
) -> FoundChunks:
    """Read chunks by their ids as of the snapshot of `session`, in one query.

    Args:
        query_filter: Compiled filter. Chunks that do not match it (any more) are left out.
        with_vectors: Ids of the chunks that are returned with `embedding`.
        count_up_to: Maximum of `live_count`; 0 to count nothing. Reads the whole collection if it has fewer.
        extra_stages: Stages that add rows of other collections, read in the same snapshot.
        max_extra_rows: Maximum number of rows that these stages add.
    """
    matching: Row = {**chunks.scope, **({"$and": [dict(query_filter)]} if query_filter else {})}
    documents = {document_of(chunk_id) for chunk_id in ids}
    found = await chunks.collection.aggregate(
        [
            {"$match": {"_id": {"$in": list(ids)}, **matching}},
            {
                "$project": {
                    **_SHOWN,
                    "embedding": {"$cond": [{"$in": ["$_id", list(with_vectors)]}, "$embedding", "$$REMOVE"]},
                    "retired_for_ms": {"$subtract": ["$$NOW", "$retired_at"]},
                }
            },
            document_index.build_union_stage(KnowledgeBaseKey(chunks.organization_id, chunks.kb_id), documents),
            *([_live_count_stage(chunks, matching, up_to=count_up_to)] if count_up_to else []),
            *extra_stages,
        ],
        session=session,
        batchSize=in_one_batch(len(ids) + len(documents) + 1 + max_extra_rows),
    )
    rows: dict[str, Row] = {}
    indexed: set[str] = set()
    live_count = 0
    extra_rows: list[Row] = []
    for row in await found.to_list():
        if "_id" in row:
            rows[row["_id"]] = row
        elif "indexed_document" in row:
            indexed.add(row["indexed_document"])
        elif "live_count" in row:
            live_count = row["live_count"]
        else:
            extra_rows.append(row)
    return FoundChunks(rows, indexed, live_count, extra_rows)


def _live_count_stage(chunks: Chunks, matching: Mapping[str, Any], *, up_to: int) -> Row:
    """Return the stage that adds a row with the number of live chunks that match."""
    live: list[Row] = [{"$match": {**matching, "until": None}}, {"$limit": up_to}, {"$count": "live_count"}]
    return {"$unionWith": {"coll": chunks.collection.name, "pipeline": live}}


async def read_embeddings(chunks: Chunks, session: MongoSession, ids: Collection[str]) -> dict[str, bytes]:
    """Read the stored vectors of chunks by their ids, as of the snapshot of `session`."""
    rows = chunks.collection.find({"_id": {"$in": list(ids)}, **chunks.scope}, {"embedding": 1}, session=session)
    return {row["_id"]: row["embedding"] for row in await rows.to_list()}


async def read_ranges(chunks: Chunks, session: MongoSession, ranges: Iterable[tuple[str, int, int]]) -> list[Row]:
    """Read ranges of chunks, live and retired ones: a document id, the first and the last `chunk_index` of each."""
    filters = [
        {"document_id": document_id, "chunk_index": {"$gte": first, "$lte": last}}
        for document_id, first, last in ranges
    ]
    rows = chunks.collection.find({**chunks.scope, "$or": filters}, _SHOWN, session=session)
    return await rows.sort([("document_id", ASCENDING), ("chunk_index", ASCENDING)]).to_list()


def select_visible(rows: Iterable[Row]) -> list[Row]:
    """Select the hits of one document, as `read_found` returns them, that may be shown together.

    The docstring of this module lists the cases.
    """
    rows = list(rows)
    live = [row for row in rows if row["until"] is None]
    if live:
        return live
    limit_ms = SHOWN_AFTER_RETIREMENT / timedelta(milliseconds=1)
    recently_retired = [row for row in rows if row["retired_for_ms"] < limit_ms]
    if not recently_retired:
        return []
    version = max(row["until"] for row in recently_retired)
    return [row for row in recently_retired if row["since"] <= version <= row["until"]]


def select_same_versions(rows: Iterable[Row], shown: Iterable[Row]) -> list[Row]:
    """Select the rows that belong to the same versions of their documents as `shown`, which `select_visible` returned.

    For each document of `shown`: if one of its shown chunks is live, the live rows; otherwise the rows that were part
    of the newest version to which a shown chunk belonged.
    """
    # The version of each document from which chunks are shown; None if these are live.
    shown_version: dict[str, int | None] = {}
    for row in shown:
        document_id, until = row["document_id"], row["until"]
        known = shown_version.get(document_id)
        shown_version[document_id] = until if known is None or until is None else max(known, until)
    return [
        row for row in rows if row["document_id"] in shown_version and _belongs(row, shown_version[row["document_id"]])
    ]


def _belongs(row: Row, version: int | None) -> bool:
    """Return whether a row was a part of `version`; for None, whether it is live."""
    if version is None or row["until"] is None:
        # A live row is not shown beside retired ones: its `chunk_index` may have changed since that version.
        return version is None and row["until"] is None
    return bool(row["since"] <= version <= row["until"])
