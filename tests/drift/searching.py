"""Searches of a service that runs in this process, while drift is planted and repaired."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from kb_search.bootstrap import create_app
from kb_search.settings import SearchSettings
from kb_shared.chat.chat import create_chat
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.integration.search.conftest import key_for
from tests.integration.search.lifespan import running


@dataclass(frozen=True, slots=True)
class DocumentSearch:
    """Searches with the API key of one organization."""

    http: httpx.AsyncClient

    async def find(self, kb: KnowledgeBase, document_id: str, query: str) -> list[str]:
        """Return the texts that a hybrid search finds in one document."""
        return [result["content"] for result in await self.search(kb, query, document_ids=[document_id])]

    async def search(self, kb: KnowledgeBase, query: str, **options: Any) -> list[dict[str, Any]]:
        """Return up to 20 results of a hybrid search."""
        path = f"/v0/orgs/{kb.organization_id}/knowledge-bases/{kb.kb_id}/search"
        answer = await self.http.post(path, json={"query": query, "top_k": 20, **options})
        results: list[dict[str, Any]] = answer.raise_for_status().json()["results"]
        return results


@asynccontextmanager
async def document_search(database: Database, api_base: str, *, organization_id: str) -> AsyncIterator[DocumentSearch]:
    settings = SearchSettings(local_models_api_base=api_base)
    embedder, chat = create_embedder(database, settings, patience_s=0.01), create_chat(database, settings)
    app = create_app(settings, database=database, embedder=embedder, chat=chat)
    headers = {"Authorization": f"Bearer {await key_for(database, settings, organization_id)}"}
    try:
        async with (
            running(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://search", headers=headers) as http,
        ):
            yield DocumentSearch(http)
    finally:
        await chat.close()
        await embedder.close()
