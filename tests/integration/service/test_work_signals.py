"""Which changes in MongoDB wake which tasks of the services. The tasks poll so rarely here that nothing else can."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, cast

import pytest

import kb_api.bootstrap
import kb_indexer.bootstrap
import kb_reconciler.bootstrap
from kb_api.settings import ApiSettings
from kb_contracts import topics
from kb_indexer import backfill
from kb_indexer.settings import IndexerSettings
from kb_local.broker import Broker
from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_local.stack import EMBEDDED_KAFKA
from kb_reconciler import plans
from kb_reconciler.settings import ReconcilerSettings
from kb_shared.http.health import Readiness
from kb_shared.identifiers import new_kb_id
from kb_shared.kafka.consumer import Consumer
from kb_shared.messaging import outbox_relay
from kb_shared.mongo import backfills, knowledge_bases, outbox, reconcile_plans, work_watch
from kb_shared.mongo.backfills import BackfillState
from kb_shared.mongo.database import Database, MongoSession, in_transaction
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import Status
from kb_shared.mongo.reconcile_plans import PlanScope, PlanState
from tests.conftest import KafkaCluster, RunningMongo
from tests.knowledge_bases import build_knowledge_base
from tests.waiting import DEADLINE_S, until

NEVER_S: Final = 600.0
SOON_S: Final = 20.0
"""Longest time until a task that was woken is done: much shorter than a test may take, so that a fault shows soon."""
OFTEN: Final = 4
"""More than the polls that a task makes because it begins, because of new leases, and because the watch begins."""

_GONE: Final = PlanScope("acme", "gone")

Work = Callable[[Database], Awaitable[Callable[[], Awaitable[bool]]]]
"""Function that writes some work to MongoDB, and returns the question whether it is done."""


@pytest.fixture
def settings(
    mongod: RunningMongo | Mongod,
    broker: KafkaCluster | Broker,
    database: Database,
    topic_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Any]:
    """Return settings of a service whose tasks never poll by themselves."""
    for name, value in EMBEDDED_KAFKA.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(outbox_relay, "_PAUSE_S", NEVER_S)
    monkeypatch.setattr(backfill, "_PAUSE_S", NEVER_S)
    monkeypatch.setattr(plans, "_PAUSE_S", NEVER_S)
    monkeypatch.setattr(work_watch, "_PAUSE_S", 0)
    return {
        "mongo_uri": mongod.uri,
        "mongo_database": database.name,
        "kafka": broker.bootstrap,
        "kafka_topic_prefix": topic_prefix,
        "http_port": free_port(),
    }


@asynccontextmanager
async def running(service: Coroutine[Any, Any, None], stop: asyncio.Event) -> AsyncIterator[None]:
    task = asyncio.create_task(service)
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(DEADLINE_S):
            await task


async def is_done_soon(database: Database, work: Work) -> None:
    for _ in range(OFTEN):
        await until(await work(database), what=work.__name__, within_s=SOON_S)


async def message_in_the_outbox(database: Database) -> Callable[[], Awaitable[bool]]:
    row = {
        "topic": topics.KB_EVENTS.name,
        "key": "k",
        "value": b"v",
        "ordering": "o",
        "seq": 0,
        "bucket": 0,
        "created_at": datetime.now(UTC),
        "sent_at": None,
    }
    message_id = (await database[outbox.NAME].insert_one(row)).inserted_id

    async def is_sent() -> bool:
        return await database[outbox.NAME].count_documents({"_id": message_id, "sent_at": {"$ne": None}}) == 1

    return is_sent


async def queued_backfill(database: Database) -> Callable[[], Awaitable[bool]]:
    """Queue a backfill of a KB that is gone, which ends as soon as it begins."""
    key = KnowledgeBaseKey("acme", "gone")

    async def start(session: MongoSession) -> str:
        return (await backfills.start(database, session, key, traceparent="")).job_id

    job_id = await in_transaction(database, start)

    async def is_worked_on() -> bool:
        scan = await backfills.find(database, key, job_id)
        return scan is not None and scan.state is BackfillState.DONE

    return is_worked_on


async def deleted_knowledge_base(database: Database) -> Callable[[], Awaitable[bool]]:
    kb = build_knowledge_base(kb_id=new_kb_id())

    async def insert(session: MongoSession) -> None:
        await knowledge_bases.insert(database, session, kb)

    await in_transaction(database, insert)
    assert await knowledge_bases.set_status(database, kb, Status.DELETING, only_from=Status.ACTIVE)

    async def is_gone() -> bool:
        return await knowledge_bases.find(database, kb.key) is None

    return is_gone


async def requested_plan(database: Database) -> Callable[[], Awaitable[bool]]:
    """Request a plan for a KB that is gone, which is done as soon as it begins."""
    plan = await reconcile_plans.create(database, _GONE, dry_run=False, requested_by="key")
    return partial(_is_done, database, plan.plan_id)


async def approved_plan(database: Database) -> Callable[[], Awaitable[bool]]:
    """Approve the plan of a pass that stopped."""
    plan = await reconcile_plans.create_stopped(database, _GONE, found={}, repairs=[])
    assert await reconcile_plans.approve(database, _GONE.organization_id, plan_id=plan.plan_id, by="key")
    return partial(_is_done, database, plan.plan_id)


async def _is_done(database: Database, plan_id: str) -> bool:
    plan = await reconcile_plans.find(database, _GONE.organization_id, plan_id=plan_id)
    return plan is not None and plan.state is PlanState.DONE


class WithoutRecords:
    """Stands for a consumer, whose join of its group and end take longer than the rest of the test."""

    async def run(self, stop: asyncio.Event) -> None:
        await stop.wait()


async def test_an_idle_indexer_is_woken_by_messages_and_backfills_of_other_processes(
    settings: dict[str, Any], database: Database
) -> None:
    stop, consumer = asyncio.Event(), cast("Consumer", WithoutRecords())
    async with kb_indexer.bootstrap.build(IndexerSettings(**settings), stop, Readiness()) as built:
        indexer = replace(built, fan_out=consumer, sync=consumer)
        async with running(indexer.run(stop), stop):
            await is_done_soon(database, message_in_the_outbox)
            await is_done_soon(database, queued_backfill)


async def test_an_idle_kb_api_is_woken_by_messages_and_knowledge_bases_of_other_processes(
    settings: dict[str, Any], database: Database
) -> None:
    stop = asyncio.Event()
    api_settings = ApiSettings(**settings, life_cycle_interval_s=NEVER_S)
    async with kb_api.bootstrap.build(api_settings) as api, running(api.run(stop), stop):
        await is_done_soon(database, message_in_the_outbox)
        await is_done_soon(database, deleted_knowledge_base)


async def test_an_idle_reconciler_is_woken_by_plans_that_are_requested_and_approved(
    settings: dict[str, Any], database: Database
) -> None:
    stop = asyncio.Event()
    async with (
        kb_reconciler.bootstrap.build(ReconcilerSettings(**settings), stop, Readiness()) as reconciler,
        running(reconciler.run(stop), stop),
    ):
        await is_done_soon(database, requested_plan)
        await is_done_soon(database, approved_plan)
