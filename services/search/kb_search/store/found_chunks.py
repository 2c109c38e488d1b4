"""Reads the chunks that an index found and tells which may be shown (rule 1 of docs/explanation/architecture.md)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from pymongo import ASCENDING

from kb_shared.mongo import document_index
from kb_shared.mongo.database import MongoSession, Row, in_one_batch
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.vectors import Chunks, document_of

SHOWN_AFTER_RETIREMENT = timedelta(seconds=30)
"""How long a reader may show a replaced version while its successor is not searchable yet.

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


class ReadChunks(NamedTuple):
    rows: dict[str, Row]
    """By id; a retired one with `retired_for_ms` by the server's clock."""
    indexed: set[str]
    """Ids of their documents that are in the KB."""
    in_all: int
    """How many live rows match the filter, found by an index or not, as far as they were counted."""
    others: list[Row]
    """Rows that other stages added."""


async def read(
    chunks: Chunks,
    session: MongoSession,
    ids: Collection[str],
    *,
    query_filter: Mapping[str, Any],
    with_vectors: Collection[str] = (),
    count_up_to: int = 0,
    others: Sequence[Row] = (),
    other_rows: int = 0,
) -> ReadChunks:
    """Read hits as of the snapshot of `session`, in one query.

    Args:
        query_filter: compiled; what no longer matches it is left out.
        with_vectors: those of `ids` that come with `embedding`; the others have none.
        count_up_to: of all that match the filter; reads the whole collection unless there are as many.
        others: stages that add rows of something else, of the same moment.
        other_rows: how many they add at most.
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
            document_index.united_with(KnowledgeBaseKey(chunks.organization_id, chunks.kb_id), documents),
            *([_united_with_count(chunks, matching, count_up_to)] if count_up_to else []),
            *others,
        ],
        session=session,
        batchSize=in_one_batch(len(ids) + len(documents) + 1 + other_rows),
    )
    rows: dict[str, Row] = {}
    indexed: set[str] = set()
    in_all = 0
    added: list[Row] = []
    for row in await found.to_list():
        if "_id" in row:
            rows[row["_id"]] = row
        elif "indexed_document" in row:
            indexed.add(row["indexed_document"])
        elif "in_all" in row:
            in_all = row["in_all"]
        else:
            added.append(row)
    return ReadChunks(rows, indexed, in_all, added)


def _united_with_count(chunks: Chunks, matching: Mapping[str, Any], up_to: int) -> Row:
    live: list[Row] = [{"$match": {**matching, "until": None}}, {"$limit": up_to}, {"$count": "in_all"}]
    return {"$unionWith": {"coll": chunks.collection.name, "pipeline": live}}


async def embeddings(chunks: Chunks, session: MongoSession, ids: Collection[str]) -> dict[str, bytes]:
    """The vectors of chunks by their ids, as they are stored, as of the snapshot of `session`."""
    rows = chunks.collection.find({"_id": {"$in": list(ids)}, **chunks.scope}, {"embedding": 1}, session=session)
    return {row["_id"]: row["embedding"] for row in await rows.to_list()}


async def read_stretches(chunks: Chunks, session: MongoSession, stretches: Iterable[tuple[str, int, int]]) -> list[Row]:
    """The rows of documents from one chunk_index to another, both included; retired ones too."""
    ranges = [
        {"document_id": document_id, "chunk_index": {"$gte": first, "$lte": last}}
        for document_id, first, last in stretches
    ]
    rows = chunks.collection.find({**chunks.scope, "$or": ranges}, _SHOWN, session=session)
    return await rows.sort([("document_id", ASCENDING), ("chunk_index", ASCENDING)]).to_list()


def visible(rows: Iterable[Row]) -> list[Row]:
    """Choose the hits of one document, as `read` returns them, that may be shown together.

    The live ones; if none is live, those of the newest version among the hits retired lately, that is within
    `SHOWN_AFTER_RETIREMENT`.
    """
    rows = list(rows)
    live = [row for row in rows if row["until"] is None]
    if live:
        return live
    limit_ms = SHOWN_AFTER_RETIREMENT / timedelta(milliseconds=1)
    lately = [row for row in rows if row["retired_for_ms"] < limit_ms]
    if not lately:
        return []
    version = max(row["until"] for row in lately)
    return [row for row in lately if row["since"] <= version <= row["until"]]


def of_the_same_versions(rows: Iterable[Row], shown: Iterable[Row]) -> list[Row]:
    """Choose the rows that belong to the versions of `shown`, as `visible` returned them."""
    retired_at_version: dict[str, int | None] = {}
    for row in shown:
        document_id, until = row["document_id"], row["until"]
        known = retired_at_version.get(document_id)
        retired_at_version[document_id] = until if known is None or until is None else max(known, until)
    return [
        row
        for row in rows
        if row["document_id"] in retired_at_version and _belongs(row, retired_at_version[row["document_id"]])
    ]


def _belongs(row: Row, version: int | None) -> bool:
    """Return whether a row is live, for None, or else was retired as a part of `version`."""
    if version is None or row["until"] is None:
        # A live row may have moved since that version.
        return version is None and row["until"] is None
    return bool(row["since"] <= version <= row["until"])
