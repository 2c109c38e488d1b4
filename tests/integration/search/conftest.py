from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pymongo import AsyncMongoClient

from kb_local.python_server import ModelServerProcess, SearchNodeProcess
from kb_search.bootstrap import create_app
from kb_search.settings import SearchSettings
from kb_shared.chat.chat import Chat, create_chat
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.embedding.embedder import Embedder
from kb_shared.mongo import api_keys
from kb_shared.mongo.api_keys import ApiKey, Scope
from kb_shared.mongo.database import Database
from tests.conftest import RunningMongo
from tests.integration.indexer.support import CommandLog
from tests.integration.search.knowledge import Knowledge, create
from tests.integration.search.lifespan import running

ORGANIZATION = "acme"


@dataclass(frozen=True)
class SearchingCaller:
    """Caller with a key of an organization."""

    http: httpx.AsyncClient
    key: str

    async def post(self, where: Knowledge | str, body: Any) -> httpx.Response:
        path = where.path if isinstance(where, Knowledge) else where
        return await self.http.post(path, json=body, headers={"Authorization": f"Bearer {self.key}"})

    async def post_bytes(self, path: str, body: bytes) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        return await self.http.post(path, content=body, headers=headers)

    async def search(self, where: Knowledge, query: str = "anything", **fields: Any) -> dict[str, Any]:
        response = await self.post(where, {"query": query, **fields})
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer


@pytest.fixture
def settings(model_server: ModelServerProcess) -> SearchSettings:
    return SearchSettings(local_models_api_base=model_server.api_base)


@pytest.fixture
async def embedder(search_database: Database, settings: SearchSettings) -> AsyncIterator[Embedder]:
    embedder = create_embedder(search_database, settings, patience_s=0.2)
    yield embedder
    await embedder.close()


@pytest.fixture
async def chat(search_database: Database, settings: SearchSettings) -> AsyncIterator[Chat]:
    chat = create_chat(search_database, settings)
    yield chat
    await chat.close()


@pytest.fixture
def app(search_database: Database, settings: SearchSettings, embedder: Embedder, chat: Chat) -> FastAPI:
    return create_app(settings, database=search_database, embedder=embedder, chat=chat)


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        # What is written down beside a search is, before its database is dropped.
        running(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://search") as client,
    ):
        yield client


NewSearcher = Callable[..., Awaitable[SearchingCaller]]


@pytest.fixture
def new_searcher(http: httpx.AsyncClient, search_database: Database, settings: SearchSettings) -> NewSearcher:
    async def make(organization_id: str = ORGANIZATION, *, scope: Scope = Scope.SEARCH) -> SearchingCaller:
        return SearchingCaller(http, await key_for(search_database, settings, organization_id, scope))

    return make


async def key_for(
    database: Database,
    settings: SearchSettings,
    organization_id: str,
    *scopes: Scope,
    kb_ids: tuple[str, ...] | None = None,
) -> str:
    """An API key; it may search if no scopes are given."""
    key_id, whole_key = api_keys.create_secret_key()
    granted = frozenset(scopes or {Scope.SEARCH})
    key = ApiKey(key_id, organization_id, "test", granted, datetime.now(UTC), None, None)
    if kb_ids is not None:
        key = replace(key, scopes=frozenset(), scopes_in_kbs=granted, kb_ids=kb_ids)
    await api_keys.insert(database, key, whole_key=whole_key, pepper=settings.api_key_pepper.get_secret_value())
    return whole_key


@pytest.fixture
async def searcher(new_searcher: NewSearcher) -> SearchingCaller:
    return await new_searcher()


@pytest.fixture
async def knowledge(search_database: Database) -> Knowledge:
    """An empty KB of the searcher's organization."""
    return await create(search_database, ORGANIZATION)


@pytest.fixture
def command_log() -> CommandLog:
    return CommandLog()


@pytest.fixture
async def watched(
    search_node: RunningMongo | SearchNodeProcess,
    search_database: Database,
    settings: SearchSettings,
    chat: Chat,
    command_log: CommandLog,
) -> AsyncIterator[SearchingCaller]:
    """A searcher all of whose commands are logged."""
    async with AsyncMongoClient[dict[str, Any]](
        search_node.uri, tz_aware=True, event_listeners=[command_log]
    ) as client:
        database = client[search_database.name]
        embedder = create_embedder(database, settings, patience_s=0.2)
        app = create_app(settings, database=database, embedder=embedder, chat=chat)
        async with (
            running(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://search") as http,
        ):
            yield SearchingCaller(http, await key_for(database, settings, ORGANIZATION, Scope.SEARCH, Scope.READ))
        await embedder.close()
