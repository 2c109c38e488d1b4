"""An embedder on real servers, and the switch that makes its provider fail."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from kb_local.ports import NO_TLS
from kb_local.python_server import ModelServerProcess
from kb_shared.embedding import guarded_provider
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.embedding.embedder import Embedder
from kb_shared.embedding.pace import Pace
from kb_shared.embedding.purchases import Purpose
from kb_shared.embedding.sub_batches import MAX_TEXTS
from kb_shared.mongo import embedding_cache, outbox, spu_ledger
from kb_shared.mongo.database import Database
from kb_shared.settings import EmbeddingSettings


@dataclass(frozen=True, slots=True)
class FaultyProvider:
    """The controls of the hash models."""

    http: httpx.AsyncClient

    async def program_faults(self, *faults: dict[str, Any], delay_ms: float = 0) -> None:
        answer = await self.http.put("/admin/hash", json={"faults": list(faults), "delay_ms": delay_ms})
        answer.raise_for_status()

    async def served(self) -> dict[str, int]:
        """Number of times that each text got its vector, by the text's SHA-256."""
        served: dict[str, int] = (await self.http.get("/admin/hash/served")).json()
        return served

    async def calls(self) -> int:
        return int((await self.http.get("/admin/hash")).json()["calls"])


@pytest.fixture
async def provider(model_server: ModelServerProcess) -> AsyncIterator[FaultyProvider]:
    async with httpx.AsyncClient(base_url=model_server.url, trust_env=False, verify=NO_TLS, timeout=60) as http:
        await http.delete("/admin/hash")
        yield FaultyProvider(http)
        await http.delete("/admin/hash")


@pytest.fixture
async def make_embedder(
    database: Database, model_server: ModelServerProcess, provider: FaultyProvider
) -> AsyncIterator[Callable[..., Embedder]]:
    for collection in (embedding_cache, outbox, spu_ledger):
        await database[collection.NAME].create_indexes(collection.INDEXES)
    made: list[Embedder] = []

    def make(*, patience_s: float = 5, timeout_s: float = 60, cache_scope: str = "organization") -> Embedder:
        settings = EmbeddingSettings.model_validate(
            {
                "local_models_api_base": model_server.api_base,
                "embedding_timeout_s": timeout_s,
                "embedding_cache_scope": cache_scope,
            }
        )
        made.append(create_embedder(database, settings, patience_s=patience_s))
        return made[-1]

    yield make
    for embedder in made:
        await embedder.close()


@pytest.fixture(autouse=True)
def near_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pace of a provider begin with full requests, as that of a provider that was asked before."""

    def pace_of_a_near_provider(*, deadline_s: float) -> Pace:
        pace = Pace(deadline_s=deadline_s)
        for _ in range(20):
            pace.answered(MAX_TEXTS, seconds=deadline_s / 1_000)
        return pace

    monkeypatch.setattr(guarded_provider, "Pace", pace_of_a_near_provider)


@pytest.fixture
def embedder(make_embedder: Callable[..., Embedder]) -> Embedder:
    return make_embedder()


@pytest.fixture
def indexing() -> Purpose:
    return Purpose("acme", "0123456789abcdef01234567", "index", "document")


@pytest.fixture
def searching() -> Purpose:
    return Purpose("acme", "0123456789abcdef01234567", "search", "query")
