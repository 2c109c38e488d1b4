"""`python -m kb_api` as it is deployed."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from kb_local.broker import Broker
from kb_local.ports import NO_TLS, free_port
from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_local.service import Service
from kb_local.zygote import Zygote
from kb_shared.mongo import outbox
from kb_shared.mongo.database import Database
from tests.waiting import until

ORGANIZATION = "acme"
KEY = "kb_bootstrap_" + "x" * 32
HEADERS = {"Authorization": f"Bearer {KEY}"}
PATH = f"/v0/orgs/{ORGANIZATION}/knowledge-bases"

StartService = Callable[[str], AbstractAsyncContextManager[Service]]


@pytest.fixture
def start(
    zygote: Zygote,
    search_node: SearchNodeProcess,
    model_server: ModelServerProcess,
    search_database: Database,
    tmp_path: Path,
) -> StartService:
    """Run the service against a broker; ends with a check of its clean stop."""

    @asynccontextmanager
    async def start(kafka: str) -> AsyncIterator[Service]:
        env = {
            "KB_MONGO_URI": search_node.uri,
            "KB_MONGO_DATABASE": search_database.name,
            "KB_KAFKA": kafka,
            "KB_KAFKA_TOPIC_PREFIX": f"{search_database.name}.",
            "KB_KAFKA_IDEMPOTENCE": "off",
            "KB_LOCAL_MODELS_API_BASE": model_server.api_base,
            "KB_EMBEDDING_MODEL": "hash-8",
            "KB_BOOTSTRAP_ADMIN_KEY": KEY,
            "KB_BOOTSTRAP_ORGANIZATION": ORGANIZATION,
        }
        service = Service(
            "kb-api", package="kb_api", zygote=zygote, port=free_port(), log=tmp_path / "kb-api.log", env=env
        )
        await service.start()
        try:
            yield service
            assert await service.stop() == 0, service.log_tail()
        finally:
            await service.kill()
        assert KEY not in service.log.read_text()

    return start


async def create(service: Service) -> str:
    async with httpx.AsyncClient(
        base_url=service.url, headers=HEADERS, trust_env=False, verify=NO_TLS, timeout=60
    ) as client:
        created = await client.post(PATH, json={"name": "n"})
        assert created.status_code == 201, created.text
        kb_id: str = created.json()["kb_id"]

        async def indexing() -> bool:
            return bool((await client.get(f"{PATH}/{kb_id}")).json()["status"] == "indexing")

        await until(indexing)
    return kb_id


async def test_a_new_knowledge_base_is_built_and_announced(
    start: StartService, broker: Broker, search_database: Database
) -> None:
    async with start(broker.bootstrap) as service:
        kb_id = await create(service)

        async def sent() -> bool:
            row = await search_database[outbox.NAME].find_one({"ordering": kb_id})
            return row is not None and row["sent_at"] is not None

        await until(sent)


async def test_without_a_broker_requests_are_served_and_their_messages_wait(
    start: StartService, search_database: Database
) -> None:
    async with start(f"127.0.0.1:{free_port()}") as service:
        kb_id = await create(service)
        row = await search_database[outbox.NAME].find_one({"ordering": kb_id})
        assert row is not None
        assert row["sent_at"] is None
