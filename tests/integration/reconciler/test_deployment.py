"""Jobs, backfills, failed KBs and budgets: what their owners missed is repaired, what they work on is not touched."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kb_contracts.commands import Reason, SyncDocument
from kb_reconciler.deployment import repair_deployment
from kb_reconciler.drift.stuck_job import STUCK_JOB
from kb_shared.errors import TransientError
from kb_shared.mongo import (
    backfills,
    budgets,
    chunk_indexes,
    index_jobs,
    knowledge_bases,
    leases,
    outbox,
    spu_ledger,
)
from kb_shared.mongo.budgets import BudgetLimits
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, IndexState
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.keys import MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from tests.integration.search.knowledge import Knowledge, create

MINUTE = timedelta(minutes=1)
JOB = MembershipKey("acme", "0" * 24, "d1")


@pytest.fixture
def database(own_database: Database) -> Database:
    """Return an empty database with the indexes of all services."""
    return own_database


async def open_job(database: Database, **fields: Any) -> None:
    command = SyncDocument(
        organization_id=JOB.organization_id, kb_id=JOB.kb_id, document_id=JOB.document_id, reason=Reason.OCR
    )
    await index_jobs.request(database, [index_jobs.SyncRequest((command,), "", datetime.now(UTC))])
    await database[index_jobs.NAME].update_one({}, {"$set": fields})


def ago(time: timedelta) -> datetime:
    return datetime.now(UTC) - time


def at_once(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return `fields` with times in place of ages: parameters are made long before their test."""
    return {name: ago(value) if isinstance(value, timedelta) else value for name, value in fields.items()}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"next_attempt_at": 11 * MINUTE}, id="no sweeper takes it"),
        pytest.param(
            {
                "state": "running",
                "next_attempt_at": 30 * MINUTE,
                "lease_owner": "dead",
                "lease_until": 11 * MINUTE,
            },
            id="its worker is dead",
        ),
        pytest.param(
            {"state": "running", "lease_owner": "x", "lease_until": -timedelta(days=400)}, id="a lease without end"
        ),
    ],
)
async def test_a_stuck_job_is_released_for_another_worker(database: Database, fields: dict[str, Any]) -> None:
    await open_job(database, **at_once(fields))

    report = await repair_deployment(database, thorough=False)

    assert (report.found, report.repaired) == (Counter(stuck_job=1), Counter(stuck_job=1))
    [taken] = await index_jobs.take_due(database, limit=10)
    assert (taken.key, taken.lease_owner) == (JOB, None)
    assert (await repair_deployment(database, thorough=False)).found == Counter()


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"next_attempt_at": 9 * MINUTE}, id="due for a short time"),
        pytest.param({"next_attempt_at": -MINUTE}, id="not due"),
        pytest.param({"next_attempt_at": 90 * MINUTE, "queued": True}, id="queued behind others"),
        pytest.param({"next_attempt_at": 90 * MINUTE, "state": "paused"}, id="paused"),
        pytest.param({"next_attempt_at": 90 * MINUTE, "state": "failed"}, id="failed"),
        pytest.param(
            {
                "state": "running",
                "next_attempt_at": 90 * MINUTE,
                "lease_owner": "alive",
                "lease_until": -MINUTE,
            },
            id="being worked on",
        ),
    ],
)
async def test_a_job_that_waits_or_is_worked_on_is_not_stuck(database: Database, fields: dict[str, Any]) -> None:
    await open_job(database, **at_once(fields))
    assert (await repair_deployment(database, thorough=True)).found["stuck_job"] == 0


async def test_a_job_that_a_worker_has_taken_since_is_not_released(database: Database) -> None:
    await open_job(database, next_attempt_at=ago(90 * MINUTE))
    [key] = await STUCK_JOB.find(database)
    await database[index_jobs.NAME].update_one(
        {}, {"$set": {"state": "running", "lease_owner": "alive", "lease_until": ago(-MINUTE)}}
    )
    assert await STUCK_JOB.repair(database, key) is False
    row = await database[index_jobs.NAME].find_one({})
    assert row is not None
    assert row["lease_owner"] == "alive"


async def start_backfill(database: Database, **fields: Any) -> None:
    async def start(session: MongoSession) -> None:
        await backfills.start(database, session, JOB.knowledge_base, traceparent="")

    await in_transaction(database, start)
    await database[backfills.NAME].update_one({}, {"$set": fields})


@pytest.mark.parametrize(
    ("fields", "is_stuck"),
    [
        pytest.param({"created_at": 11 * MINUTE}, True, id="never begun"),
        pytest.param({"created_at": 9 * MINUTE}, False, id="just created"),
        pytest.param({"lease_owner": "dead", "lease_until": 11 * MINUTE}, True, id="its worker is dead"),
        pytest.param({"lease_owner": "x", "lease_until": -timedelta(days=400)}, True, id="a lease without end"),
        pytest.param(
            {"created_at": 90 * MINUTE, "lease_owner": "alive", "lease_until": -MINUTE},
            False,
            id="being worked on",
        ),
        pytest.param({"created_at": 90 * MINUTE, "state": "done"}, False, id="done"),
    ],
)
async def test_a_backfill_that_no_worker_continues_is_released(
    database: Database, fields: dict[str, Any], *, is_stuck: bool
) -> None:
    await start_backfill(database, **at_once(fields))

    report = await repair_deployment(database, thorough=False)

    assert report.found["stuck_backfill"] == report.repaired["stuck_backfill"] == is_stuck
    if is_stuck:
        assert await backfills.claim(database, owner="another", lease=MINUTE, but=[]) is not None


# Leases.


async def hold(database: Database, name: str, *, until: datetime) -> None:
    await database[leases.NAME].insert_one({"_id": name, "owner": "x", "until": until})


async def add_message(database: Database, *, age: timedelta, **fields: Any) -> None:
    row = {"organization_id": "acme", "bucket": 3, "ordering": "o", "seq": 1, "sent_at": None, **fields}
    await database[outbox.NAME].insert_one({**row, "created_at": ago(age)})


@pytest.mark.parametrize(
    ("until", "repaired"),
    [
        pytest.param(-timedelta(days=400), True, id="a lease without end"),
        pytest.param(MINUTE, True, id="an expired lease"),
        pytest.param(None, False, id="no lease: only reported"),
    ],
)
async def test_messages_that_no_relay_sends_are_found_and_their_bucket_is_released(
    database: Database, until: timedelta | None, *, repaired: bool
) -> None:
    await add_message(database, age=11 * MINUTE)
    if until is not None:
        await hold(database, "outbox/3", until=ago(until))

    report = await repair_deployment(database, thorough=False)

    assert (report.found["stuck_outbox"], report.repaired["stuck_outbox"]) == (1, repaired)
    assert await leases.take_all(database, ["outbox/3"], owner="another", length=MINUTE) == {"outbox/3"}


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"age": 9 * MINUTE}, id="young"),
        pytest.param({"age": 90 * MINUTE, "sent_at": MINUTE}, id="sent"),
        pytest.param({"age": 90 * MINUTE, "sent_at": False, "unsendable_at": MINUTE}, id="unsendable"),
        pytest.param({"age": 90 * MINUTE, "bucket": 4}, id="its relay has the lease"),
    ],
)
async def test_other_messages_are_not_stuck(database: Database, fields: dict[str, Any]) -> None:
    await hold(database, "outbox/4", until=ago(-MINUTE))
    age = fields.pop("age")
    await add_message(database, age=age, **at_once(fields))
    assert (await repair_deployment(database, thorough=True)).found["stuck_outbox"] == 0
    assert await database[leases.NAME].count_documents({}) == 1


@pytest.mark.parametrize("status", [Status.CREATING, Status.BUILDING, Status.DELETING])
async def test_a_life_cycle_that_no_kb_api_continues_is_found_and_its_lease_is_released(
    database: Database, knowledge: Knowledge, status: Status
) -> None:
    kb_id = knowledge.kb.kb_id

    async def set_fields(**fields: Any) -> None:
        await database[knowledge_bases.NAME].update_one({"_id": kb_id}, {"$set": fields})

    await set_fields(status=status, updated_at=ago(59 * MINUTE))
    assert (await repair_deployment(database, thorough=True)).found["stuck_life_cycle"] == 0
    await set_fields(updated_at=ago(61 * MINUTE))
    await hold(database, f"kb/{kb_id}", until=ago(-MINUTE))
    assert (await repair_deployment(database, thorough=True)).found["stuck_life_cycle"] == 0, "it is held"
    await database[leases.NAME].update_one({}, {"$set": {"until": ago(-timedelta(days=400))}})

    report = await repair_deployment(database, thorough=False)

    assert (report.found["stuck_life_cycle"], report.repaired["stuck_life_cycle"]) == (1, 1)
    assert await leases.acquire(database, f"kb/{kb_id}", owner="another", length=MINUTE)


# KBs in error.


@pytest.fixture
async def knowledge(database: Database) -> Knowledge:
    knowledge = await create(database, "acme")
    await knowledge.set_status(Status.ERROR)
    return knowledge


async def status_of(database: Database, kb: KnowledgeBase) -> Status:
    return (await knowledge_bases.get(database, kb.key)).status


async def test_a_failed_knowledge_base_goes_on_with_new_indexes_and_with_pauses(
    database: Database, knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = knowledge.kb
    dropped: list[str] = []

    async def failed(*_: object) -> IndexState:
        return IndexState.FAILED

    async def drop(*_: object) -> None:
        dropped.append(TEXT_INDEX)

    monkeypatch.setattr(chunk_indexes, "read_state", failed)
    monkeypatch.setattr(chunk_indexes, "drop_failed", drop)
    pauses = []
    for _ in range(3):
        assert (await repair_deployment(database, thorough=False)).repaired == Counter(failed_kb=1)
        assert await status_of(database, kb) is Status.BUILDING
        await database[knowledge_bases.NAME].update_one({"_id": kb.kb_id}, {"$set": {"status": Status.ERROR}})
        assert (await repair_deployment(database, thorough=False)).found["failed_kb"] == 0
        row = await database[knowledge_bases.NAME].find_one({"_id": kb.kb_id})
        assert row is not None
        pauses.append(round((row["retry_at"] - datetime.now(UTC)) / MINUTE))
        await database[knowledge_bases.NAME].update_one({"_id": kb.kb_id}, {"$set": {"retry_at": ago(MINUTE)}})
    assert pauses == [5, 10, 20]
    assert len(dropped) == 3


async def test_a_failed_knowledge_base_whose_indexes_are_sound_again_keeps_them(
    database: Database, knowledge: Knowledge
) -> None:
    before = await knowledge.chunks.collection.list_search_indexes()
    assert (await repair_deployment(database, thorough=False)).repaired == Counter(failed_kb=1)
    after = await knowledge.chunks.collection.list_search_indexes()
    assert {row["id"] for row in await before.to_list()} == {row["id"] for row in await after.to_list()}
    assert await status_of(database, knowledge.kb) is Status.BUILDING


async def test_a_failed_knowledge_base_that_is_being_worked_on_is_left_alone(
    database: Database, knowledge: Knowledge
) -> None:
    lease = f"kb/{knowledge.kb.kb_id}"
    assert await leases.acquire(database, lease, owner="life cycle", length=5 * MINUTE)
    assert (await repair_deployment(database, thorough=False)).repaired == Counter()
    assert await status_of(database, knowledge.kb) is Status.ERROR
    assert await leases.acquire(database, lease, owner="life cycle", length=5 * MINUTE), "the lease was taken away"


# Budgets.


async def used(database: Database) -> tuple[int, int]:
    budget = await budgets.find(database, "acme")
    assert budget is not None
    return budget.used, budget.used_nano_usd


async def test_spending_is_set_from_the_ledger_in_full_passes(database: Database) -> None:
    await budgets.set_limits(database, "acme", BudgetLimits(hard=1_000))
    charge = spu_ledger.Charge("id", "acme", None, "index", "model", count=5, nano_usd=7)
    await spu_ledger.charge(database, None, [charge])
    row = {"organization_id": "acme"}
    await database[budgets.NAME].update_one(row, {"$set": {"used": 77, "used_nano_usd": 3}})
    assert (await repair_deployment(database, thorough=False)).found == Counter()

    report = await repair_deployment(database, thorough=True)

    assert (report.found, report.repaired) == (Counter(spent_differs=1), Counter(spent_differs=1))
    assert await used(database) == (5, 7)
    assert (await repair_deployment(database, thorough=True)).found == Counter()


async def test_a_budget_with_a_reservation_is_left_alone(database: Database) -> None:
    await budgets.set_limits(database, "acme", BudgetLimits(hard=1_000))
    await budgets.reserve(database, "acme", 5, nano_usd=0, lifetime=MINUTE)
    await database[budgets.NAME].update_one({"organization_id": "acme"}, {"$set": {"used": 77}})
    assert (await repair_deployment(database, thorough=True)).found == Counter()


async def test_a_kind_that_can_not_be_looked_for_does_not_stop_the_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> list[MembershipKey]:
        raise TransientError("MongoDB is away")

    monkeypatch.setattr(index_jobs, "find_stuck", fail)
    await start_backfill(database, created_at=ago(11 * MINUTE))
    assert (await repair_deployment(database, thorough=False)).repaired == Counter(stuck_backfill=1)
