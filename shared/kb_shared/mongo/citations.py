"""`citations`: one row for each chunk that the model of a run saw, with whether its answer cites it.

They are written after the run is stored, so a crash in between loses the rows of one run: reports count a little less.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from pymongo import ASCENDING, DESCENDING, IndexModel

from kb_contracts.api.insights import CitedKind
from kb_contracts.reserved_ids import ENTRY_PREFIX
from kb_shared.mongo import document_index
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.keys import DocumentKey

NAME = "citations"
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("document_id", ASCENDING), ("answered_at", DESCENDING)]),
    IndexModel([("organization_id", ASCENDING), ("answered_at", DESCENDING)]),
    IndexModel([("organization_id", ASCENDING), ("thread_id", ASCENDING)]),
    IndexModel([("expires_at", ASCENDING)], expireAfterSeconds=0),
]


@dataclass(frozen=True, slots=True)
class RunCitation:
    """A chunk in one run."""

    organization_id: str
    run_id: str
    thread_id: str | None
    agent_id: str | None
    origin: str | None
    kb_id: str
    document_id: str
    document_name: str
    """Name of the document at the time of the run."""
    chunk_id: str
    in_context: bool
    """True if the model saw the chunk in this run. It comes from the result of the search, not from the answer."""
    cited: bool
    """True if the answer cites the chunk."""
    answered_at: datetime
    expires_at: datetime


async def insert(database: Database, citations: Sequence[RunCitation]) -> None:
    """Store the rows of one run, which has none yet."""
    await database[NAME].insert_many([_to_row(each) for each in citations], ordered=False)


def _to_row(citation: RunCitation) -> Row:
    # A chunk is in a run once, even if several searches of it return the chunk.
    return {"_id": f"{citation.run_id}/{citation.kb_id}/{citation.chunk_id}", **asdict(citation)}


async def count_by_document(
    database: Database, organization_id: str, *, document_ids: Collection[str], since: datetime
) -> dict[str, int]:
    """Count the citations of each document since a time; a document without citations is left out."""
    match = {
        "organization_id": organization_id,
        "document_id": {"$in": list(document_ids)},
        "answered_at": {"$gte": since},
        "cited": True,
    }
    rows = await database[NAME].aggregate(
        [{"$match": match}, {"$group": {"_id": "$document_id", "citations": {"$sum": 1}}}]
    )
    return {row["_id"]: row["citations"] async for row in rows}


async def delete_of_document(database: Database, key: DocumentKey, *, session: MongoSession | None = None) -> None:
    query = {"organization_id": key.organization_id, "document_id": key.document_id}
    await database[NAME].delete_many(query, session=session)


async def delete_of_thread(database: Database, organization_id: str, *, thread_id: str) -> None:
    await database[NAME].delete_many({"organization_id": organization_id, "thread_id": thread_id})


@dataclass(frozen=True, slots=True)
class CitationsWanted:
    """Conditions that all must hold; None: no condition."""

    since: datetime
    until: datetime
    """End of the time in which the runs ended, excluded."""
    kind: CitedKind | None = None
    kb_id: str | None = None
    origin: str | None = None
    agent_id: str | None = None
    document_id: str | None = None


@dataclass(frozen=True, slots=True)
class CitationCount:
    """Numbers of times that runs saw and cited a document."""

    document_id: str
    document_name: str
    """Name of the document when it was last seen."""
    in_context: int
    """Number of pairs of a run and a chunk of the document that its model saw."""
    citations: int
    """Number of pairs of a run and a chunk of the document that its answer cites."""
    runs: int
    """Number of runs that cite the document."""
    last_cited_at: datetime | None


async def most_cited(
    database: Database, organization_id: str, wanted: CitationsWanted, *, skip: int, limit: int
) -> tuple[list[CitationCount], int]:
    """Return one page of the documents that answers cite most, and how many documents are cited in all."""
    pipeline = [
        {"$match": _match(organization_id, wanted)},
        *_count_by_document(),
        {"$match": {"citations": {"$gt": 0}}},
    ]
    order = {"citations": DESCENDING, "runs": DESCENDING, "_id": ASCENDING}
    return await _page(database, NAME, pipeline, order=order, skip=skip, limit=limit)


async def never_cited(
    database: Database, organization_id: str, wanted: CitationsWanted, *, skip: int, limit: int
) -> tuple[list[CitationCount], int]:
    """Return one page of the indexed documents that no answer cites, and how many there are in all.

    Those that models saw most often are first.
    """
    indexed: Row = {"organization_id": organization_id, **_match_document(wanted)}
    if wanted.kb_id is not None:
        indexed["kb_id"] = wanted.kb_id
    counted = [{"$match": _match(organization_id, wanted)}, *_count_by_document(), {"$unset": "document_name"}]
    by_document = {
        "_id": {"$ifNull": ["$document_id", "$_id"]},
        # The name of a document that is indexed. A document that only runs know has none here.
        "document_name": {"$max": "$document_name"},
        "in_context": {"$sum": "$in_context"},
        "citations": {"$sum": "$citations"},
    }
    pipeline: list[Row] = [
        {"$match": indexed},
        {"$project": {"_id": 0, "document_id": 1, "document_name": 1}},
        {"$unionWith": {"coll": NAME, "pipeline": counted}},
        {"$group": by_document},
        {"$match": {"citations": 0, "document_name": {"$ne": None}}},
        {"$set": {"runs": 0, "last_cited_at": None}},
    ]
    order = {"in_context": DESCENDING, "_id": ASCENDING}
    return await _page(database, document_index.NAME, pipeline, order=order, skip=skip, limit=limit)


def _match(organization_id: str, wanted: CitationsWanted) -> Row:
    given = {"kb_id": wanted.kb_id, "origin": wanted.origin, "agent_id": wanted.agent_id}
    return {
        "organization_id": organization_id,
        "answered_at": {"$gte": wanted.since, "$lt": wanted.until},
        **{name: value for name, value in given.items() if value is not None},
        **_match_document(wanted),
    }


def _match_document(wanted: CitationsWanted) -> Row:
    conditions: Row = {} if wanted.document_id is None else {"$eq": wanted.document_id}
    of_entries = {"$regex": f"^{ENTRY_PREFIX}"}
    match wanted.kind:
        case "entries":
            conditions |= of_entries
        case "documents":
            conditions["$not"] = of_entries
    return {"document_id": conditions} if conditions else {}


def _count_by_document() -> list[Row]:
    by_run = {
        "_id": {"document_id": "$document_id", "run_id": "$run_id"},
        "document_name": {"$last": "$document_name"},
        "in_context": {"$sum": {"$cond": ["$in_context", 1, 0]}},
        "citations": {"$sum": {"$cond": ["$cited", 1, 0]}},
        "answered_at": {"$last": "$answered_at"},
    }
    is_cited = {"$gt": ["$citations", 0]}
    by_document = {
        "_id": "$_id.document_id",
        "document_name": {"$last": "$document_name"},
        "in_context": {"$sum": "$in_context"},
        "citations": {"$sum": "$citations"},
        "runs": {"$sum": {"$cond": [is_cited, 1, 0]}},
        "last_cited_at": {"$max": {"$cond": [is_cited, "$answered_at", None]}},
    }
    return [{"$group": by_run}, {"$sort": {"answered_at": ASCENDING}}, {"$group": by_document}]


async def _page(
    database: Database, collection: str, pipeline: Sequence[Row], *, order: Row, skip: int, limit: int
) -> tuple[list[CitationCount], int]:
    pages = {
        "page": [{"$sort": order}, {"$skip": skip}, {"$limit": limit}],
        "total": [{"$count": "count"}],
    }
    rows = await database[collection].aggregate([*pipeline, {"$facet": pages}], allowDiskUse=True)
    [found] = await rows.to_list()
    total = found["total"][0]["count"] if found["total"] else 0
    return [CitationCount(document_id=row.pop("_id"), **row) for row in found["page"]], total
