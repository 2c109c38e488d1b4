import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from kb_local.ports import LOOPBACK, NO_TLS, free_port
from kb_local.python_server import ModelServerProcess
from kb_local.server import accepts_connections
from kb_search.bootstrap import create_app
from kb_search.settings import SearchSettings
from kb_shared.chat.chat import Chat, create_chat
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.http import server
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database
from tests.integration.search.conftest import ORGANIZATION, key_for
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create
from tests.scripted_model import ScriptedModel, scripted_model
from tests.waiting import until

FENCE = "A fence is a write that fails when the truth has changed."
BREAD = "Bread is baked in an oven."


@dataclass(frozen=True)
class Author:
    """Caller with an admin key of an organization."""

    http: httpx.AsyncClient
    key: str
    organization_id: str = ORGANIZATION

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Send a request; `if_match="x"` sends the header `If-Match: x`."""
        return await self.http.request(
            method,
            f"/v0/orgs/{self.organization_id}{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.key}"}
            | {name.replace("_", "-"): value for name, value in headers.items()},
        )

    async def make(self, path: str, **body: Any) -> Any:
        answer = await self.ask("POST", path, body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def run(self, **body: Any) -> Any:
        """Start a run, expect an answer and return the run."""
        answer = await self.ask("POST", "/runs", body)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
async def scripted(model_server: ModelServerProcess) -> AsyncIterator[ScriptedModel]:
    async with scripted_model(model_server) as model:
        yield model


@pytest.fixture
def settings(model_server: ModelServerProcess) -> SearchSettings:
    # On a machine that is busy with other things the first call alone may take a minute.
    return SearchSettings(
        local_models_api_base=model_server.api_base, chat_patience_s=60, chat_timeout_s=600, run_max_seconds=600
    )


@pytest.fixture
async def chat(search_database: Database, settings: SearchSettings) -> AsyncIterator[Chat]:
    chat = create_chat(search_database, settings)
    yield chat
    await chat.close()


@pytest.fixture
def short_retries(chat: Chat) -> None:
    """For a test whose model fails for good."""
    chat._guard._patience_s = 0.2


@pytest.fixture
async def app(search_database: Database, settings: SearchSettings, chat: Chat) -> AsyncIterator[FastAPI]:
    embedder = create_embedder(search_database, settings, patience_s=60)
    yield create_app(settings, database=search_database, embedder=embedder, chat=chat)
    await embedder.close()


@pytest.fixture
async def author(app: FastAPI, search_database: Database, settings: SearchSettings) -> AsyncIterator[Author]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://search") as http:
        yield Author(http, await key_for(search_database, settings, ORGANIZATION, Scope.ADMIN))


@pytest.fixture
async def served(author: Author, app: FastAPI, settings: SearchSettings) -> AsyncIterator[Author]:
    """The author, at the address of a real server in this event loop."""
    port, stop = free_port(), asyncio.Event()
    serving = asyncio.create_task(server.run(app, settings.model_copy(update={"http_port": port}), stop))
    await until(lambda: accepts_connections(LOOPBACK, port), what="the server")
    url = f"http://{LOOPBACK}:{port}"
    async with httpx.AsyncClient(base_url=url, trust_env=False, verify=NO_TLS, timeout=300) as http:
        yield Author(http, author.key)
    stop.set()
    await serving


def streamed(author: Author, body: Any) -> AbstractAsyncContextManager[httpx.Response]:
    """A run as events."""
    headers = {"Authorization": f"Bearer {author.key}", "Accept": "text/event-stream"}
    return author.http.stream("POST", f"/v0/orgs/{ORGANIZATION}/runs", json=body, headers=headers)


@pytest.fixture
async def knowledge(search_database: Database) -> Knowledge:
    """A KB of the author's with two documents."""
    knowledge = await create(search_database, ORGANIZATION, name="Facts")
    await knowledge.index(DocumentToIndex("fence", [FENCE], name="fence.md"))
    await knowledge.index(DocumentToIndex("bread", [BREAD], name="bread.md"))
    return knowledge
