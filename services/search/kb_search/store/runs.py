"""`runs`: questions to chat models with their searches, answers, citations and costs; and `threads`.

A run is written when it begins and again when it ends, with or without an answer. It is kept for 90 days.
"""

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument

from kb_contracts.api.runs import Grounded
from kb_search.store.keys import RunKey, ThreadKey
from kb_shared.errors import NotFound
from kb_shared.mongo import citations
from kb_shared.mongo.database import Database, MongoSession, Row
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.rows import RowMapper

NAME = "runs"
KEPT: Final = timedelta(days=90)
INDEXES = [
    IndexModel([("organization_id", ASCENDING), ("_id", DESCENDING)]),
    IndexModel([("organization_id", ASCENDING), ("thread_id", ASCENDING), ("_id", ASCENDING)]),
    IndexModel([("organization_id", ASCENDING), ("citations.kb_id", ASCENDING)]),
    IndexModel([("started_at", ASCENDING)], expireAfterSeconds=int(KEPT.total_seconds())),
]

THREADS = "threads"
THREAD_INDEXES = [IndexModel([("organization_id", ASCENDING), ("_id", DESCENDING)])]


class RunStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    """The process ended before the run did."""


@dataclass(frozen=True, slots=True)
class StoredCitation:
    """A passage that the answer of a run cites as `[number]`."""

    number: int
    citation: str
    """Id of the chunk."""
    kb_id: str
    document_id: str
    source: str
    """Name of the document."""
    chunk_index: int
    page_start: int | None = None
    page_end: int | None = None
    relevance: float | None = None
    start: int | None = None
    """Position in the text of the document; None in rows from before this field, as below."""
    end: int | None = None
    heading_path: list[str] = field(default_factory=list)
    text: str | None = None
    """Text of the passage as the search returned it."""
    truncated: bool = False
    also_in: list[dict[str, str]] = field(default_factory=list)
    """Other chunks with the same text, with the names of their documents."""


@dataclass(frozen=True, slots=True)
class Run:
    """One question to a chat model."""

    run_id: str
    organization_id: str
    thread_id: str | None
    prompt_id: str | None
    agent_id: str | None
    key_id: str
    model: str
    status: RunStatus
    question: list[dict[str, Any]]
    """The caller's own messages."""
    started_at: datetime
    lost_after: datetime
    finished_at: datetime | None = None
    answer: str | None = None
    error: dict[str, Any] | None = None
    """Error as `type` and `detail`."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """All messages that the model was sent or wrote."""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    citations: tuple[StoredCitation, ...] = ()
    dropped_citations: int = 0
    """Number of citations in the answer that no search of the run returned."""
    grounded: Grounded | None = None
    """Ground of the answer; None if there is none, and in rows from before this field."""
    iterations: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    spus: int = 0
    document_id: str | None = None
    """Document that the question is about."""
    document_name: str | None = None
    """Name of the document when the run began."""
    document_truncated: bool = False
    """True if the model saw only the beginning of its text."""
    is_json: bool = False
    """True if the answer follows a schema."""
    origin: str | None = None
    """Kind of client that began it; None in rows from before this field."""
    kb_ids: tuple[str, ...] = ()
    """KBs that it could search; empty in rows from before this field."""
    injections: list[dict[str, Any]] = field(default_factory=list)
    """Messages with injected knowledge, as `iteration`, `text` and `piece_ids`, one for each change."""
    feedback: Row | None = None
    """Judgement of a person on the answer, as `rating` and `comment`."""


_CANCELLED: Final = "cancellation_requested"
_CITATIONS: Final = RowMapper(StoredCitation)


def _citations_of(stored: Iterable[Row]) -> tuple[StoredCitation, ...]:
    return tuple(map(_CITATIONS.read, stored))


_RUNS: Final = RowMapper(
    Run, names={"run_id": "_id"}, convert={"status": RunStatus, "citations": _citations_of, "kb_ids": tuple}
)


async def begin(database: Database, run: Run) -> None:
    await database[NAME].insert_one(_to_row(run))


async def finish(database: Database, run: Run) -> None:
    """Replace the row by the complete run."""
    await database[NAME].replace_one(_run_key(RunKey(run.organization_id, run.run_id)), _to_row(run))


async def get(database: Database, key: RunKey) -> Run:
    """Return a run. Raises NotFound."""
    row = await database[NAME].find_one(_run_key(key))
    if row is None:
        raise NotFound("run")
    return _from_row(row)


@dataclass(frozen=True, slots=True)
class RunsWanted:
    """Conditions that all must hold; None: no condition."""

    thread_id: str | None = None
    agent_id: str | None = None
    prompt_id: str | None = None
    kb_id: str | None = None
    """KB that the run could search."""
    key_id: str | None = None
    """API key that began the run."""
    origin: str | None = None
    status: RunStatus | None = None
    since: datetime | None = None
    until: datetime | None = None
    """End of the time in which it began, excluded."""


async def page(
    database: Database,
    organization_id: str,
    wanted: RunsWanted,
    *,
    before: str | None = None,
    with_tool_calls: bool = False,
    skip: int,
    limit: int,
) -> tuple[list[Run], int]:
    """Return one page of runs, newest first and without messages, and how many there are in all.

    Args:
        before: id of the last run of the page before.
        with_tool_calls: whether the runs have their calls of tools, whose results can be long.
    """
    query = {"organization_id": organization_id, **_conditions(wanted)}
    shown = {"messages": 0, "injections": 0} | ({} if with_tool_calls else {"tool_calls": 0})
    rows = database[NAME].find({**query, **_before(before)}, shown).sort("_id", DESCENDING).skip(skip).limit(limit)
    return [_from_row(row) async for row in rows], await database[NAME].count_documents(query)


def _conditions(wanted: RunsWanted) -> Row:
    conditions = _match_given(
        thread_id=wanted.thread_id,
        agent_id=wanted.agent_id,
        prompt_id=wanted.prompt_id,
        key_id=wanted.key_id,
        origin=wanted.origin,
        kb_ids=wanted.kb_id,
    )
    began = {"$gte": wanted.since, "$lt": wanted.until}
    if given := {bound: time for bound, time in began.items() if time is not None}:
        conditions["started_at"] = given
    match wanted.status:
        case None:
            return conditions
        case RunStatus.RUNNING:
            return {**conditions, "status": RunStatus.RUNNING, "lost_after": {"$gte": datetime.now(UTC)}}
        case RunStatus.LOST:
            return {**conditions, "status": RunStatus.RUNNING, "lost_after": {"$lt": datetime.now(UTC)}}
    return {**conditions, "status": wanted.status}


def _before(row_id: str | None) -> Row:
    # Ids of rows grow with time.
    return {} if row_id is None else {"_id": {"$lt": row_id}}


def _match_given(**conditions: str | None) -> Row:
    return {name: value for name, value in conditions.items() if value is not None}


async def request_cancellation(database: Database, key: RunKey) -> bool:
    """Ask the process of a run to cancel it; False if the run has ended or is lost."""
    going_on = {**_run_key(key), "status": RunStatus.RUNNING, "lost_after": {"$gte": datetime.now(UTC)}}
    # Not a field of the run: its end replaces the row.
    updated = await database[NAME].update_one(going_on, {"$set": {_CANCELLED: True}})
    return updated.matched_count == 1


async def find_cancelled(database: Database, keys: Collection[RunKey]) -> set[RunKey]:
    """Return those of the runs that are to be cancelled."""
    query = {
        "_id": {"$in": [key.run_id for key in keys]},
        "organization_id": {"$in": sorted({key.organization_id for key in keys})},
        _CANCELLED: True,
    }
    rows = database[NAME].find(query, {"organization_id": 1})
    return {RunKey(row["organization_id"], row["_id"]) async for row in rows}


async def set_feedback(database: Database, key: RunKey, *, rating: str, comment: str) -> Run:
    """Store the judgement on a run that has ended, in place of an earlier one.

    Raises:
        NotFound: There is no such run, or it has not ended: its end would replace the judgement.
    """
    ended = {**_run_key(key), "status": {"$ne": RunStatus.RUNNING}}
    feedback = {"rating": rating, "comment": comment}
    row = await database[NAME].find_one_and_update(
        ended, {"$set": {"feedback": feedback}}, return_document=ReturnDocument.AFTER
    )
    if row is None:
        raise NotFound("finished run")
    return _from_row(row)


async def find_latest_of_thread(
    database: Database, key: ThreadKey, *, at_most: int, key_id: str | None = None
) -> list[Run]:
    """Return the newest completed runs of a thread, oldest first, without messages; of one API key if it is given."""
    query = {"organization_id": key.organization_id, "thread_id": key.thread_id, "status": RunStatus.COMPLETED}
    query |= _match_given(key_id=key_id)
    rows = (
        database[NAME]
        .find(query, {"messages": 0, "tool_calls": 0, "injections": 0})
        .sort("_id", DESCENDING)
        .limit(at_most)
    )
    return [_from_row(row) async for row in rows][::-1]


@dataclass(frozen=True, slots=True)
class CitedDocument:
    """A document of a KB that runs have cited."""

    document_id: str
    document_name: str
    """Name of the document when it was cited last."""
    runs: int
    citations: int
    last_cited_at: datetime


async def most_cited(
    database: Database, key: KnowledgeBaseKey, *, since: datetime, until: datetime, skip: int, limit: int
) -> tuple[list[CitedDocument], int]:
    """Return one page of the documents that most runs of that time cite, and how many are cited in all."""
    by_run = {
        "_id": {"document_id": "$citations.document_id", "run_id": "$_id"},
        "document_name": {"$last": "$citations.source"},
        "citations": {"$sum": 1},
        "started_at": {"$last": "$started_at"},
    }
    by_document = {
        "_id": "$_id.document_id",
        "document_name": {"$last": "$document_name"},
        "runs": {"$sum": 1},
        "citations": {"$sum": "$citations"},
        "last_cited_at": {"$max": "$started_at"},
    }
    order = {"runs": DESCENDING, "citations": DESCENDING, "_id": ASCENDING}
    rows = await database[NAME].aggregate(
        [
            *_citations(key, since=since, until=until),
            {"$group": by_run},
            {"$sort": {"started_at": ASCENDING}},
            {"$group": by_document},
            {
                "$facet": {
                    "page": [{"$sort": order}, {"$skip": skip}, {"$limit": limit}],
                    "total": [{"$count": "count"}],
                }
            },
        ],
        allowDiskUse=True,
    )
    [found] = await rows.to_list()
    total = found["total"][0]["count"] if found["total"] else 0
    return [CitedDocument(document_id=row.pop("_id"), **row) for row in found["page"]], total


def cited_documents_stage(key: KnowledgeBaseKey, *, since: datetime, until: datetime) -> Row:
    """Return a stage that adds a `cited_document` for each document that runs of that time cite."""
    cited = {"$group": {"_id": "$citations.document_id"}}
    only_id = {"$project": {"_id": 0, "cited_document": "$_id"}}
    pipeline = [*_citations(key, since=since, until=until), cited, only_id]
    return {"$unionWith": {"coll": NAME, "pipeline": pipeline}}


def _citations(key: KnowledgeBaseKey, *, since: datetime, until: datetime) -> list[Row]:
    in_time = {"started_at": {"$gte": since, "$lt": until}}
    return [
        {"$match": {"organization_id": key.organization_id, "citations.kb_id": key.kb_id, **in_time}},
        {"$project": {"started_at": 1, "citations": 1}},
        {"$unwind": "$citations"},
        {"$match": {"citations.kb_id": key.kb_id}},
    ]


@dataclass(frozen=True, slots=True)
class Thread:
    """A conversation."""

    thread_id: str
    organization_id: str
    title: str
    created_at: datetime
    created_by: str


_THREADS: Final = RowMapper(Thread, names={"thread_id": "_id"})


async def insert_thread(database: Database, thread: Thread, *, session: MongoSession | None = None) -> None:
    row = asdict(thread)
    await database[THREADS].insert_one({"_id": row.pop("thread_id"), **row}, session=session)


async def get_thread(database: Database, key: ThreadKey) -> Thread:
    """Return a thread. Raises NotFound."""
    row = await database[THREADS].find_one(_thread_key(key))
    if row is None:
        raise NotFound("thread")
    return _THREADS.read(row)


async def list_threads(
    database: Database,
    organization_id: str,
    *,
    created_by: str | None = None,
    before: str | None = None,
    skip: int,
    limit: int,
) -> tuple[list[Thread], int]:
    """Return one page of threads, newest first, and how many there are in all.

    Args:
        created_by: API key of the threads; None: any.
        before: id of the last thread of the page before.
    """
    query = {"organization_id": organization_id} | _match_given(created_by=created_by)
    rows = database[THREADS].find({**query, **_before(before)}).sort("_id", DESCENDING).skip(skip).limit(limit)
    return [_THREADS.read(row) async for row in rows], await database[THREADS].count_documents(query)


async def count_threads(database: Database, organization_id: str) -> int:
    return await database[THREADS].count_documents({"organization_id": organization_id})


async def delete_thread(database: Database, key: ThreadKey) -> None:
    """Delete a thread, its runs and their citations. Raises NotFound."""
    deleted = await database[THREADS].delete_one(_thread_key(key))
    if not deleted.deleted_count:
        raise NotFound("thread")
    await database[NAME].delete_many({"organization_id": key.organization_id, "thread_id": key.thread_id})
    await citations.delete_of_thread(database, key.organization_id, thread_id=key.thread_id)


def _run_key(key: RunKey) -> Row:
    return {"_id": key.run_id, "organization_id": key.organization_id}


def _thread_key(key: ThreadKey) -> Row:
    return {"_id": key.thread_id, "organization_id": key.organization_id}


def _to_row(run: Run) -> Row:
    row = asdict(run)
    return {"_id": row.pop("run_id"), **row, "status": str(run.status)}


def _from_row(row: Row) -> Run:
    run = _RUNS.read(row)
    is_lost = run.status is RunStatus.RUNNING and run.lost_after < datetime.now(UTC)
    return replace(run, status=RunStatus.LOST) if is_lost else run
