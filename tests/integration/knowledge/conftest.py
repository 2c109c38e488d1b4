from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest
from pymongo import AsyncMongoClient

from kb_api.detect_dimensions import DimensionDetection
from kb_api.life_cycle import LifeCycle
from kb_knowledge.apply_outcomes import OutcomeHandler
from kb_knowledge.bootstrap import create_app
from kb_knowledge.settings import KnowledgeSettings
from kb_local.python_server import ModelServerProcess
from kb_search.bootstrap import create_app as create_search_app
from kb_search.settings import SearchSettings
from kb_shared.chat.chat import create_chat
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.mongo import api_keys, backfills, index_jobs
from kb_shared.mongo.api_keys import ApiKey, Scope
from kb_shared.mongo.database import Database
from tests.indexes import create_all_indexes
from tests.integration.indexer.conftest import ModelControls, model_controls
from tests.integration.indexer.support import replica
from tests.integration.knowledge.author import Author
from tests.integration.search.lifespan import running

MODEL = "hash-16"


@pytest.fixture(scope="session")
async def knowledge_database(search_client: AsyncMongoClient[dict[str, Any]]) -> AsyncIterator[Database]:
    """One database for the tests of this folder, each of which is an organization of its own."""
    name = f"test_{uuid4().hex[:16]}"
    await create_all_indexes(search_client[name])
    yield search_client[name]
    await search_client.drop_database(name)


@pytest.fixture(scope="session")
def settings(model_server: ModelServerProcess) -> KnowledgeSettings:
    return KnowledgeSettings(
        local_models_api_base=model_server.api_base,
        embedding_model=MODEL,
        default_chunk_size=50,
        default_chunk_overlap=0,
        max_knowledge_entries=50,
        max_entities=3,
        max_graph_nodes=5,
    )


@pytest.fixture(scope="session")
async def knowledge_http(knowledge_database: Database, settings: KnowledgeSettings) -> AsyncIterator[httpx.AsyncClient]:
    chat = create_chat(knowledge_database, settings)
    transport = httpx.ASGITransport(create_app(settings, database=knowledge_database, chat=chat))
    async with httpx.AsyncClient(transport=transport, base_url="http://knowledge") as client:
        yield client
    await chat.close()


@pytest.fixture
async def provider(model_server: ModelServerProcess) -> AsyncIterator[ModelControls]:
    async with model_controls(model_server) as controls:
        yield controls


@pytest.fixture
async def author(
    knowledge_database: Database, knowledge_http: httpx.AsyncClient, model_server: ModelServerProcess
) -> AsyncIterator[Author]:
    organization_id, (key_id, whole_key) = f"org-{uuid4().hex[:12]}", api_keys.create_secret_key()
    key = ApiKey(key_id, organization_id, "test", frozenset({Scope.ADMIN}), datetime.now(UTC), None, None)
    pepper = KnowledgeSettings().api_key_pepper.get_secret_value()
    assert await api_keys.insert(knowledge_database, key, whole_key=whole_key, pepper=pepper)
    async with replica(knowledge_database, model_server.api_base) as indexer:
        detection = DimensionDetection(indexer.embedder)
        life_cycle = LifeCycle(knowledge_database, interval_s=1, detection=detection)
        yield Author(
            organization_id, whole_key, knowledge_http, indexer, life_cycle, OutcomeHandler(knowledge_database)
        )
    # What is left open here would become the work of the next test.
    for name in (index_jobs.NAME, backfills.NAME):
        await knowledge_database[name].delete_many({})


@pytest.fixture
async def search_http(knowledge_database: Database, settings: KnowledgeSettings) -> AsyncIterator[httpx.AsyncClient]:
    search_settings = SearchSettings(local_models_api_base=settings.local_models_api_base)
    chat = create_chat(knowledge_database, search_settings)
    embedder = create_embedder(knowledge_database, search_settings)
    app = create_search_app(search_settings, database=knowledge_database, embedder=embedder, chat=chat)
    async with (
        running(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://search") as client,
    ):
        yield client
    await embedder.close()
    await chat.close()
