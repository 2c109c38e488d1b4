"""How the indexer and the reconciler begin when what they need is away or set up wrongly."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY
from pymongo import AsyncMongoClient
from pymongo.errors import AutoReconnect

import kb_indexer.bootstrap
import kb_reconciler.bootstrap
from kb_contracts.topics import DOCUMENT_EVENTS, TOPICS
from kb_indexer.settings import IndexerSettings
from kb_local.broker import Broker
from kb_local.mongod import Mongod
from kb_local.ports import NO_TLS, free_port
from kb_local.stack import EMBEDDED_KAFKA
from kb_reconciler import count_states
from kb_reconciler.settings import ReconcilerSettings
from kb_shared.kafka import group_watch
from kb_shared.kafka.topics import ensure_topics
from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.mongo import leases
from kb_shared.service import process
from kb_shared.settings import CommonSettings
from tests.conftest import RunningMongo
from tests.waiting import DEADLINE_S, until

Serve = Callable[[Any, asyncio.Event], Awaitable[None]]
SERVICES: list[tuple[Serve, type[CommonSettings]]] = [
    (kb_indexer.bootstrap.serve, IndexerSettings),
    (kb_reconciler.bootstrap.serve, ReconcilerSettings),
]


@pytest.fixture
async def own_broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker that is not running yet."""
    broker = Broker(port=free_port(), log=tmp_path / "broker.log")
    yield broker
    await broker.stop()


@pytest.fixture
def settings(
    mongod: RunningMongo | Mongod, database_name: str, own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    for name, value in EMBEDDED_KAFKA.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(process, "_RETRY_S", 0.1)
    monkeypatch.setattr(group_watch, "INTERVAL_S", 0.2)
    monkeypatch.setattr(group_watch, "TOPICS_INTERVAL_S", 0.0)
    return {
        "mongo_uri": mongod.uri,
        "mongo_database": database_name,
        "kafka": own_broker.bootstrap,
        "http_port": free_port(),
        "kafka_session_timeout_ms": 2_000,
    }


class RunningService:
    def __init__(self, http: httpx.AsyncClient, running: asyncio.Task[None]) -> None:
        self._http = http
        self.running = running

    async def answers(self, path: str) -> int:
        try:
            return (await self._http.get(path)).status_code
        except httpx.ConnectError:
            return 0

    async def reason(self) -> str | None:
        reason: str | None = (await self._http.get("/readyz")).json().get("reason")
        return reason

    async def is_healthy(self) -> bool:
        return await self.answers("/healthz") == 200

    async def is_ready(self) -> bool:
        assert not self.running.done(), "the service has ended"
        return await self.answers("/readyz") == 200

    async def until_not_ready(self, because: str) -> None:
        async def gives_reason() -> bool:
            return because in str(await self.reason())

        await until(gives_reason, what=f"not ready because of {because!r}", every_s=0.1)


@asynccontextmanager
async def running(serve: Serve, settings: CommonSettings) -> AsyncIterator[RunningService]:
    stop = asyncio.Event()
    task = asyncio.ensure_future(serve(settings, stop))
    url = f"http://127.0.0.1:{settings.http_port}"
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=NO_TLS, timeout=60) as http:
        yield RunningService(http, task)
        stop.set()
        async with asyncio.timeout(DEADLINE_S):
            await task


@pytest.mark.parametrize(("serve", "kind"), SERVICES)
async def test_health_is_served_before_kafka_answers_and_a_stop_ends_the_waiting(
    settings: dict[str, Any], serve: Serve, kind: type[CommonSettings]
) -> None:
    async with running(serve, kind(**settings)) as service:
        await until(service.is_healthy)
        await service.until_not_ready(because="Kafka")
        assert await service.answers("/metrics") == 200


async def test_an_indexer_with_unfit_topics_stays_up_says_why_and_begins_once_they_are_fixed(
    settings: dict[str, Any], own_broker: Broker
) -> None:
    await own_broker.start()
    connection = KafkaConnection(own_broker.bootstrap)
    await ensure_topics(connection, [replace(DOCUMENT_EVENTS, partitions=2)])
    async with running(kb_indexer.bootstrap.serve, IndexerSettings(**settings)) as service:
        await until(service.is_healthy)
        await service.until_not_ready(because="document-events")
        # An operator deletes what is wrong; here the broker forgets it.
        await own_broker.kill()
        await own_broker.start()
        await ensure_topics(connection, TOPICS)
        await until(service.is_ready, every_s=0.1)


async def test_a_reconciler_counts_states_for_its_metrics_and_goes_on_after_a_failure(
    settings: dict[str, Any], own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, counted_again = 0, asyncio.Event()

    async def count(_: object) -> None:
        nonlocal counts
        counts += 1
        if counts == 1:
            raise AutoReconnect
        counted_again.set()

    monkeypatch.setattr(count_states, "count_states", count)
    monkeypatch.setattr(kb_reconciler.bootstrap, "STATES_COUNTED_EVERY_S", 0.05)
    await own_broker.start()
    async with running(kb_reconciler.bootstrap.serve, ReconcilerSettings(**settings)), asyncio.timeout(DEADLINE_S):
        await counted_again.wait()


async def test_a_reconciler_says_whether_it_is_the_leader_and_how_long_its_passes_take(
    settings: dict[str, Any], own_broker: Broker, mongo_client: AsyncMongoClient[dict[str, Any]]
) -> None:
    database = mongo_client[settings["mongo_database"]]
    lease, rival = kb_reconciler.bootstrap.LEASE_OF_PASSES, "another-replica"
    assert await leases.acquire(database, lease, owner=rival, length=timedelta(minutes=5))
    await own_broker.start()
    reconciler = ReconcilerSettings(**settings, reconcile_interval_s=0.1)

    def passes() -> float:
        return REGISTRY.get_sample_value("kb_reconciler_pass_seconds_count", {"pass": "incremental"}) or 0

    before = passes()
    async with running(kb_reconciler.bootstrap.serve, reconciler):
        await until(lambda: REGISTRY.get_sample_value("kb_leader") == 0, what="a reconciler that is not the leader")
        assert passes() == before
        await leases.release(database, lease, owner=rival)
        await until(lambda: REGISTRY.get_sample_value("kb_leader") == 1, what="the new leader")
        await until(lambda: passes() > before, what="a pass")
