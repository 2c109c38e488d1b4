"""One kb-api in this process for all tests; each test is an organization of its own."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest
from pydantic import SecretStr
from pymongo import AsyncMongoClient

from kb_api.bootstrap import KbApi, create_app, create_kb_api
from kb_api.settings import ApiSettings
from kb_api.webhooks import deliveries, webhook_rows
from kb_local.ports import NO_TLS
from kb_local.python_server import ModelServerProcess
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.mongo import api_keys, knowledge_bases
from kb_shared.mongo.api_keys import ApiKey, Scope
from kb_shared.mongo.database import Database
from tests.indexes import create_all_indexes
from tests.integration.kb_api.organization import OrganizationClient
from tests.integration.kb_api.test_events import list_all
from tests.integration.kb_api.webhook_receiver import Receiver

MODEL = "hash-16"


@pytest.fixture(scope="session")
async def kb_api_database(search_client: AsyncMongoClient[dict[str, Any]]) -> AsyncIterator[Database]:
    name = f"test_{uuid4().hex[:16]}"
    await create_all_indexes(search_client[name])
    yield search_client[name]
    await search_client.drop_database(name)


@pytest.fixture(scope="session")
async def api(kb_api_database: Database, model_server: ModelServerProcess) -> AsyncIterator[KbApi]:
    settings = ApiSettings(
        local_models_api_base=model_server.api_base,
        embedding_model=MODEL,
        life_cycle_interval_s=0.05,
        provider_keys=SecretStr(f"2:{base64.b64encode(bytes([2]) * 32).decode()}"),
    )
    embedder = create_embedder(kb_api_database, settings, patience_s=0.2)
    kb_api = create_kb_api(settings, database=kb_api_database, embedder=embedder)
    yield kb_api
    await kb_api.text_worker.close()
    await kb_api.provider_checks.close()
    await embedder.close()


@pytest.fixture(scope="session")
async def http(api: KbApi) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(api))
    async with httpx.AsyncClient(transport=transport, base_url="http://kb-api") as client:
        yield client


NewOrganization = Callable[..., Awaitable[OrganizationClient]]


@pytest.fixture
def new_organization(api: KbApi, http: httpx.AsyncClient) -> NewOrganization:
    async def make(*scopes: Scope, organization_id: str | None = None) -> OrganizationClient:
        whole_key = await make_key(api, organization_id := organization_id or f"org-{uuid4().hex[:12]}", *scopes)
        return OrganizationClient(organization_id, whole_key, http, api)

    return make


async def make_key(api: KbApi, organization_id: str, *scopes: Scope, expires_at: datetime | None = None) -> str:
    key_id, whole_key = api_keys.create_secret_key()
    key = ApiKey(
        key_id, organization_id, "test", frozenset(scopes or {Scope.ADMIN}), datetime.now(UTC), expires_at, None
    )
    pepper = api.settings.api_key_pepper.get_secret_value()
    assert await api_keys.insert(api.database, key, whole_key=whole_key, pepper=pepper)
    return whole_key


@pytest.fixture
async def organization(new_organization: NewOrganization) -> AsyncIterator[OrganizationClient]:
    organization = await new_organization()
    yield organization
    # Life cycles of later tests have enough to do with their own.
    await organization.database[knowledge_bases.NAME].delete_many({"organization_id": organization.organization_id})


@pytest.fixture
async def living(api: KbApi) -> AsyncIterator[None]:
    """KBs go through their lives while the test runs."""
    stop = asyncio.Event()
    running = asyncio.create_task(api.life_cycle.run(stop))
    yield
    stop.set()
    await running


@pytest.fixture
async def provider(model_server: ModelServerProcess) -> AsyncIterator[Callable[..., Awaitable[None]]]:
    """Make the embedding provider fail: `await provider({"status": 503})`."""
    async with httpx.AsyncClient(base_url=model_server.url, trust_env=False, verify=NO_TLS, timeout=60) as admin:

        async def program_faults(*faults: dict[str, Any]) -> None:
            (await admin.put("/admin/hash", json={"faults": list(faults)})).raise_for_status()

        yield program_faults
        await admin.delete("/admin/hash")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver().serve() as receiver:
        yield receiver


@pytest.fixture(scope="session")
async def private_api(api: KbApi) -> AsyncIterator[KbApi]:
    """Allow webhooks to have addresses of this machine."""
    settings = api.settings.model_copy(update={"allow_private_addresses": True})
    private = create_kb_api(settings, database=api.database, embedder=api.embedder)
    yield private
    await private.webhook_sender.close()


@pytest.fixture
async def owner(private_api: KbApi, organization: OrganizationClient) -> AsyncIterator[OrganizationClient]:
    """The owner of the webhooks."""
    await list_all(private_api)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(create_app(private_api)), base_url="http://kb-api"
    ) as http:
        yield replace(organization, http=http, api=private_api)
    # Nothing waits for later tests.
    await organization.database[webhook_rows.NAME].delete_many({})
    await organization.database[deliveries.NAME].delete_many({})
