"""kb-api when Kafka is not set up as it must be."""

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from pymongo import AsyncMongoClient
from structlog.testing import capture_logs

from kb_api.bootstrap import build
from kb_api.settings import ApiSettings
from kb_contracts.topics import DOCUMENT_EVENTS
from kb_local.broker import Broker
from kb_local.mongod import Mongod
from kb_local.ports import NO_TLS, free_port
from kb_local.stack import EMBEDDED_KAFKA
from kb_shared.kafka.topics import ensure_topics
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.conftest import RunningMongo
from tests.waiting import DEADLINE_S, until


async def test_kb_api_with_unfit_topics_serves_is_ready_and_logs_the_topic_once(
    mongod: RunningMongo | Mongod, database_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in EMBEDDED_KAFKA.items():
        monkeypatch.setenv(name, value)
    broker = Broker(port=free_port(), log=tmp_path / "broker.log")
    await broker.start()
    await ensure_topics(KafkaConnection(broker.bootstrap), [replace(DOCUMENT_EVENTS, partitions=2)])
    settings = ApiSettings(
        mongo_uri=mongod.uri, mongo_database=database_name, kafka=broker.bootstrap, http_port=free_port()
    )
    stop = asyncio.Event()
    url = f"http://127.0.0.1:{settings.http_port}"
    async with build(settings) as api, httpx.AsyncClient(base_url=url, trust_env=False, verify=NO_TLS) as http:
        with capture_logs() as logs:
            running = asyncio.create_task(api.run(stop))

            def waits() -> list[str]:
                return [line["reason"] for line in logs if line["event"] == "start.waiting"]

            async def is_ready() -> bool:
                try:
                    return (await http.get("/readyz")).status_code == 200
                except httpx.ConnectError:
                    return False

            await until(is_ready)
            await until(lambda: any("document-events" in reason for reason in waits()))
            assert not running.done()
            stop.set()
            async with asyncio.timeout(DEADLINE_S):
                await running
    assert len(waits()) == len(set(waits()))
    async with AsyncMongoClient[dict[str, object]](mongod.uri) as client:
        await client.drop_database(database_name)
    await broker.stop()
