"""An honest provider that computes few texts a second, one after the other, even when no caller waits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kb_shared.concurrency.bounded_cache import BoundedCache
from kb_shared.embedding import guarded_provider
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.embedding.embedder import Embedder
from kb_shared.embedding.pace import Pace
from kb_shared.embedding.purchases import Purpose
from kb_shared.errors import Parked, ProviderUnavailable
from kb_shared.mongo import circuits, spu_ledger
from kb_shared.mongo.circuit import OUTAGES_TO_OPEN
from kb_shared.mongo.database import Database
from kb_shared.providers.circuit_breaker import CircuitBreaker
from kb_shared.settings import EmbeddingSettings
from tests.hostile_provider import HostileProvider, SequentialProvider, gives_vectors, hostile_provider, waits

MODEL = "hash-16"
DIMENSIONS = 16


@pytest.fixture(autouse=True)
def is_unknown(near_provider: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Find out the speed of the provider, as of any new one."""
    monkeypatch.setattr(guarded_provider, "Pace", Pace)


@asynccontextmanager
async def embedding_at(
    database: Database, server: HostileProvider, *, deadline_s: float = 0.5
) -> AsyncIterator[Embedder]:
    settings = EmbeddingSettings(local_models_api_base=server.api_base, embedding_timeout_s=deadline_s)
    # Less than the deadline, so that what ran out of time is not asked for again.
    embedder = create_embedder(database, settings, patience_s=0.3)
    yield embedder
    await embedder.close()


async def embed(embedder: Embedder, purpose: Purpose, *texts: str) -> None:
    await embedder.embed(texts, model=MODEL, dimensions=DIMENSIONS, purpose=purpose)


async def test_every_document_is_embedded_nothing_computed_is_lost_and_queries_are_answered(
    make_embedder: Callable[..., Embedder], database: Database, indexing: Purpose, searching: Purpose
) -> None:
    provider = SequentialProvider(texts_per_s=12, dimensions=DIMENSIONS)
    async with hostile_provider(provider) as server, embedding_at(database, server, deadline_s=3) as embedder:

        async def document(number: int) -> None:
            texts = [f"{number}: {text}" for text in range(5)]
            while True:
                try:
                    return await embed(embedder, indexing, *texts)
                except (ProviderUnavailable, Parked):
                    await asyncio.sleep(0.1)

        documents = asyncio.gather(*map(document, range(8)))
        answered = 0
        while not documents.done():
            await embed(embedder, searching, f"query {answered}")
            answered += 1
        await documents
    assert answered >= 2
    assert await spu_ledger.sum_spus(database, "acme") == 8 * 5 + answered
    assert 8 * 5 + answered >= 0.9 * provider.computed


async def test_a_provider_that_was_out_is_probed_with_one_text(
    make_embedder: Callable[..., Embedder], database: Database, indexing: Purpose
) -> None:
    never = asyncio.Event()
    behaviour = waits(never, gives_vectors(DIMENSIONS))
    async with hostile_provider(behaviour) as server, embedding_at(database, server) as embedder:
        await _open_circuit(embedder, indexing)
        server.behaviour = gives_vectors(DIMENSIONS)
        server.asked.clear()
        await _end_circuit_pause(database, embedder)
        await embed(embedder, indexing, *(f"text {number}" for number in range(5)))
        # After five timeouts of one text the others are asked for one by one, too, until their time is known.
        assert len(server.asked[0].body["input"]) == 1
        assert sum(len(asked.body["input"]) for asked in server.asked) == 5
    assert await spu_ledger.sum_spus(database, "acme") == 5


async def test_no_text_is_refused_between_the_answer_of_a_probe_and_the_closing_of_the_circuit(
    make_embedder: Callable[..., Embedder], database: Database, indexing: Purpose, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_answer = CircuitBreaker._note_answer

    async def note_answer_slowly(*args: Any) -> None:
        await asyncio.sleep(0.1)
        await note_answer(*args)

    behaviour = waits(asyncio.Event(), gives_vectors(DIMENSIONS))
    async with hostile_provider(behaviour) as server, embedding_at(database, server) as embedder:
        await _open_circuit(embedder, indexing)
        server.behaviour = gives_vectors(DIMENSIONS)
        await _end_circuit_pause(database, embedder)
        monkeypatch.setattr(CircuitBreaker, "_note_answer", note_answer_slowly)
        await embed(embedder, indexing, *(f"text {number}" for number in range(5)))


async def test_queries_are_asked_for_while_the_provider_is_out_for_documents(
    make_embedder: Callable[..., Embedder], database: Database, indexing: Purpose, searching: Purpose
) -> None:
    never = asyncio.Event()
    behaviour = waits(never, gives_vectors(DIMENSIONS))
    async with hostile_provider(behaviour) as server, embedding_at(database, server) as embedder:
        await _open_circuit(embedder, indexing)
        server.behaviour = gives_vectors(DIMENSIONS)
        await embed(embedder, searching, "a question")
        with pytest.raises(Parked):
            await embed(embedder, indexing, "a chunk")


async def _open_circuit(embedder: Embedder, purpose: Purpose) -> None:
    for number in range(OUTAGES_TO_OPEN):
        with pytest.raises(ProviderUnavailable):
            await embed(embedder, purpose, f"lost {number}")


async def _end_circuit_pause(database: Database, embedder: Embedder) -> None:
    """Let an open circuit be probed now."""
    await database[circuits.NAME].update_many({}, [{"$set": {"open_until": {"$subtract": ["$$NOW", 600_000]}}}])
    embedder._provider._guard._circuits._seen = BoundedCache(1)
