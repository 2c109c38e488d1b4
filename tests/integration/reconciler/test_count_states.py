"""Operators see how many documents and circuits are in which state."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from kb_contracts.commands import Reason, SyncDocument
from kb_contracts.topics import DOCUMENT_EVENTS, INDEX_REQUESTS
from kb_reconciler.count_states import count_states
from kb_shared.identifiers import new_kb_id
from kb_shared.mongo import circuits, dead_letters, index_jobs, kb_slots
from kb_shared.mongo.circuit import Cause, Circuit
from kb_shared.mongo.circuits import CircuitId
from kb_shared.mongo.database import Database, MongoSession, Row, in_transaction
from kb_shared.mongo.dead_letters import DeadLetter
from kb_shared.mongo.index_jobs import IndexJobState, SyncRequest
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey
from tests.indexes import create_all_indexes

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOW = datetime.now(UTC)
LATER, EARLIER = NOW + timedelta(hours=1), NOW - timedelta(hours=1)


def gauge(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


async def indexed(database: Database, organization_id: str, documents: int) -> str:
    kb_id = new_kb_id()

    async def create(session: MongoSession) -> None:
        await kb_slots.create(database, session, KnowledgeBaseKey(organization_id, kb_id), tags_version=1)

    await in_transaction(database, create)
    for n in range(documents):

        async def swap(session: MongoSession, document_id: str = f"d{n}") -> None:
            assert await kb_slots.fence_knowledge_base(
                database,
                session,
                MembershipKey(organization_id, kb_id, document_id),
                tags_version=1,
                documents=1,
                chunks=2,
            )

        await in_transaction(database, swap)
    return kb_id


async def test_documents_are_counted_by_state_over_all_organizations(database: Database) -> None:
    await indexed(database, "other", 2)
    kb_id = await indexed(database, "acme", 3)
    command = SyncDocument(organization_id="acme", kb_id=kb_id, document_id="d", reason=Reason.OCR)
    commands = [replace_id(command, n) for n in range(4)]
    await index_jobs.request(database, [SyncRequest(commands, TRACE, NOW)])
    rows = database[index_jobs.NAME]
    for document_id, state in (
        ("d1", IndexJobState.FAILED),
        ("d2", IndexJobState.FAILED),
        ("d3", IndexJobState.WAITING_FOR_TEXT),
    ):
        await rows.update_one({"document_id": document_id}, {"$set": {"state": state}})
    await count_states(database)
    states = ("indexed", *IndexJobState)
    counts = {state: gauge("kb_documents", state=state) for state in states}
    assert counts == {
        "indexed": 5,
        "pending": 1,
        "failed": 2,
        "waiting_for_text": 1,
        "running": 0,
        "paused": 0,
    }
    await rows.delete_many({})
    await count_states(database)
    assert gauge("kb_documents", state="failed") == 0, "no document is left in it"


def replace_id(command: SyncDocument, n: int) -> SyncDocument:
    return command.model_copy(update={"document_id": f"d{n}"})


async def test_counting_states_does_not_scan_all_jobs_and_closed_circuits(database: Database) -> None:
    await create_all_indexes(database)
    await indexed(database, "acme", 1)
    many = range(3_000)
    await database[index_jobs.NAME].insert_many([{"_id": str(n), "state": IndexJobState.FAILED} for n in many])
    # A scan of the open jobs would be noticed, too.
    await database[index_jobs.NAME].insert_many(
        [open_job(f"open {n}", reason=reason, occurred_at=NOW) for n, reason in enumerate([*Reason] * 400)]
    )
    await database[circuits.NAME].insert_many([{"_id": str(n), "cause": None, "at": NOW} for n in many])
    # Only of this database: the search node reads the oplog meanwhile, which the counters of the server include.
    await database.command("profile", 2)
    await count_states(database)
    await database.command("profile", 0)
    assert gauge("kb_documents", state="failed") == len(many)
    profiled = await database["system.profile"].find({"docsExamined": {"$exists": True}}).to_list()
    assert {row["ns"].partition(".")[2] for row in profiled} >= {index_jobs.NAME, circuits.NAME}
    assert sum(row["docsExamined"] for row in profiled) < len(many) // 2
    [oldest] = [row for row in profiled if "$unionWith" in str(row["command"])]
    assert (oldest["docsExamined"], oldest["keysExamined"] < 50) == (0, True)


def open_job(row_id: str, **fields: Any) -> Row:
    return {"_id": row_id, "state": IndexJobState.PENDING, "error_type": None, **fields}


async def test_the_oldest_job_that_no_person_holds_up_has_its_age_exported_by_path(database: Database) -> None:
    await create_all_indexes(database)
    # Not the time at which this file was imported: a busy machine may run the test much later.
    now = datetime.now(UTC)
    hours_ago = [now - timedelta(hours=hours) for hours in range(24)]
    rows = [
        open_job("newest", reason=Reason.OCR, occurred_at=hours_ago[1]),
        open_job("oldest", reason=Reason.OCR, occurred_at=hours_ago[3]),
        open_job("running", reason=Reason.TAG, occurred_at=hours_ago[2], state=IndexJobState.RUNNING),
        open_job("retried", reason=Reason.DELETED, occurred_at=hours_ago[4], error_type="provider_5xx"),
        open_job("limited", reason=Reason.BACKFILL, occurred_at=hours_ago[5], error_type="rate_limited"),
        open_job("of a producer ahead", reason=Reason.RECONCILE, occurred_at=LATER),
        *(
            open_job(f"held up {n}", reason=Reason.OCR, occurred_at=hours_ago[20], error_type=error_type)
            for n, error_type in enumerate(
                ["budget_exhausted", "unknown_price", "provider_key_missing", "provider_auth", "provider_quota"]
            )
        ),
        *(
            open_job(f"closed {n}", reason=Reason.OCR, occurred_at=hours_ago[20], state=state)
            for n, state in enumerate([IndexJobState.FAILED, IndexJobState.PAUSED, IndexJobState.WAITING_FOR_TEXT])
        ),
    ]
    await database[index_jobs.NAME].insert_many(rows)
    await count_states(database)
    ages = {path: gauge("kb_oldest_unindexed_age_seconds", path=path) for path in Reason}
    in_hours = {path: None if age is None else round(age / 3600, 1) for path, age in ages.items()}
    assert in_hours == {
        "ocr": 3,
        "tag": 2,
        "deleted": 4,
        "backfill": 5,
        "reconcile": 0,
        "metadata": 0,
        "retry": 0,
    }
    await database[index_jobs.NAME].delete_many({})
    await count_states(database)
    assert gauge("kb_oldest_unindexed_age_seconds", path=Reason.OCR) == 0, "all are indexed"


async def put(database: Database, organization_id: str, circuit: Circuit) -> None:
    circuit_id = CircuitId(organization_id, "f", "m")
    await circuits.change(
        database, circuit_id, lambda before, _: (replace(circuit, generation=before.generation + 1), None)
    )


@pytest.mark.parametrize(
    ("circuit", "is_open"),
    [
        (Circuit(cause=Cause.QUOTA, open_until=LATER), True),
        (Circuit(cause=Cause.QUOTA, open_until=EARLIER, probe_until=LATER), True),
        (Circuit(cause=Cause.QUOTA, open_until=EARLIER), False),
        (Circuit(failures=3), False),
    ],
)
async def test_circuits_that_keep_work_away_now_are_counted_by_cause(
    database: Database, circuit: Circuit, *, is_open: bool
) -> None:
    await put(database, "acme", circuit)
    for organization_id in ("first", "second"):
        await put(database, organization_id, Circuit(cause=Cause.OUTAGE, open_until=LATER))
    await count_states(database)
    counts = {cause: gauge("kb_circuits_open", cause=cause) for cause in Cause}
    assert counts == {Cause.OUTAGE: 2, Cause.QUOTA: int(is_open), Cause.KEY: 0}


async def file_letter(database: Database, letter_id: str, *, topic: str, filed_at: datetime) -> DeadLetter:
    letter = DeadLetter(
        letter_id=letter_id,
        organization_id="acme",
        document_id=None,
        topic=topic,
        partition=0,
        offset=0,
        key=None,
        headers=(),
        size_bytes=None,
        reason="malformed",
        detail="",
        traceparent=TRACE,
        occurred_at=None,
        filed_at=filed_at,
    )
    await dead_letters.file(database, [dead_letters.Filing(letter, None)])
    return letter


async def test_open_dead_letters_are_counted_with_the_age_of_the_oldest(database: Database) -> None:
    await create_all_indexes(database)
    events, requests = DOCUMENT_EVENTS.name, INDEX_REQUESTS.name
    now = datetime.now(UTC)
    oldest = await file_letter(database, "oldest", topic=events, filed_at=now - timedelta(days=2))
    await file_letter(database, "older", topic=events, filed_at=now - timedelta(hours=3))
    await file_letter(database, "newest", topic=events, filed_at=now)
    unwanted = await file_letter(database, "unwanted", topic=events, filed_at=now - timedelta(days=1))

    async def redrive_and_discard(session: MongoSession) -> None:
        await dead_letters.mark_redriven(database, session, oldest, by="someone")
        await dead_letters.mark_discarded(database, session, unwanted, by="someone")

    await in_transaction(database, redrive_and_discard)
    await count_states(database)
    assert gauge("kb_dlq_depth", topic=events) == 2
    assert gauge("kb_dlq_oldest_age_seconds", topic=events) == pytest.approx(3 * 3600, abs=600)
    assert gauge("kb_dlq_depth", topic=requests) == 0
    await database[dead_letters.NAME].delete_many({})
    await count_states(database)
    assert gauge("kb_dlq_depth", topic=events) == 0, "none is left"
    assert gauge("kb_dlq_oldest_age_seconds", topic=events) == 0


async def test_counting_dead_letters_does_not_scan_those_that_are_not_open(database: Database) -> None:
    await create_all_indexes(database)
    ends = ({"redriven_at": NOW, "discarded_at": None}, {"redriven_at": None, "discarded_at": NOW})
    letter = {"organization_id": "acme", "topic": DOCUMENT_EVENTS.name, "filed_at": NOW}
    rows = [{"_id": str(n), **letter, **ends[n % 2]} for n in range(1_000)]
    await database[dead_letters.NAME].insert_many(rows)
    await file_letter(database, "waiting", topic=DOCUMENT_EVENTS.name, filed_at=NOW)
    await database.command("profile", 2)
    assert (await dead_letters.count_open(database))[DOCUMENT_EVENTS.name].letters == 1
    await database.command("profile", 0)
    [profiled] = await database["system.profile"].find({"command.aggregate": dead_letters.NAME}).to_list()
    assert profiled["docsExamined"] == 1
