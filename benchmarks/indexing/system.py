"""The whole system on this machine, as a benchmark of indexing uses it from outside."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Final

import httpx
from pymongo import AsyncMongoClient

from benchmarks.indexing.outcomes import Outcomes, outcomes_of
from benchmarks.members import add_members_option, mongo_uri
from kb_client.events import EventPublisher
from kb_contracts.documents import OcrCompleted
from kb_local.stack import Stack

SERVICES: Final = ("kb_api", "kb_indexer", "kb_search")
_PATIENCE_S: Final = 3_600.0
_LOOK_AGAIN_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class System:
    stack: Stack
    mongod: AsyncMongoClient[dict[str, Any]]
    http: httpx.AsyncClient
    events: EventPublisher
    outcomes: Outcomes

    async def create_knowledge_base(self, tag_id: str, options: argparse.Namespace) -> str:
        """Create a KB of the documents with `tag_id`; returns its id once it was searched."""
        (await self.http.post("/tags", json={"tag_id": tag_id, "name": tag_id})).raise_for_status()
        body = {
            "name": f"Benchmark {tag_id}",
            "tag_ids": [tag_id],
            "embedding_model": f"hash-{options.dims}",
            "chunker_type": "recursive",
            "chunk_size": options.chunk_size,
            "chunk_overlap": options.chunk_overlap,
        }
        created = (await self.http.post("/knowledge-bases", json=body)).raise_for_status().json()
        kb_id = str(created["kb_id"])
        await until(lambda: self._is_searchable(kb_id))
        # The first search of a process loads what it needs, and buys the vector of the query: that is not indexing.
        await self.is_found(kb_id, "none")
        return kb_id

    def event(self, document_id: str, text: str, *, tag_id: str, revision: int = 1) -> OcrCompleted:
        return OcrCompleted(
            organization_id=self.stack.organization_id,
            document_id=document_id,
            revision=revision,
            document_name=f"Document {document_id}",
            tag_ids=[tag_id],
            upload_date=datetime(2026, 1, 1, tzinfo=UTC),
            text=text,
        )

    async def is_found(self, kb_id: str, document_id: str) -> bool:
        answer = await self.http.post(
            f"/knowledge-bases/{kb_id}/search",
            json={"query": "anything", "document_ids": [document_id], "top_k": 1},
        )
        return bool(answer.raise_for_status().json()["results"])

    async def until_found(self, kb_id: str, document_ids: Iterable[str]) -> None:
        """Return when a search over HTTP finds each of them."""

        async def all_found() -> bool:
            return all(await asyncio.gather(*(self.is_found(kb_id, document_id) for document_id in document_ids)))

        await until(all_found)

    async def live_chunks(self, kb_ids: Iterable[str]) -> int:
        database = self.mongod[self.stack.database]
        counts = [await database[f"kb_vectors_{kb_id}"].count_documents({"until": None}) for kb_id in kb_ids]
        return sum(counts)

    async def _is_searchable(self, kb_id: str) -> bool:
        kb = (await self.http.get(f"/knowledge-bases/{kb_id}")).raise_for_status().json()
        return kb["status"] in ("active", "indexing")


def add_options(parser: argparse.ArgumentParser, *, words: int = 3_000, dims: int = 1_536) -> None:
    """Add the options of the documents and of the KBs they go into."""
    parser.add_argument("--words", type=int, default=words, help="a document; 68 make a chunk of 200 tokens")
    parser.add_argument("--dims", type=int, default=dims)
    parser.add_argument("--chunk-size", type=int, default=200, help="tokens")
    parser.add_argument("--chunk-overlap", type=int, default=0, help="tokens")
    parser.add_argument("--embed-delay-ms", type=int, default=50, help="of the embedding server, a call")
    add_members_option(parser)


@asynccontextmanager
async def running_system(
    folder: Path, options: argparse.Namespace, *, env: Mapping[str, str] | None = None
) -> AsyncIterator[System]:
    """Start everything in `folder`, the embedding server as slow as `options` say; `env` are settings of services."""
    async with (
        mongo_uri(folder, options.members) as given_uri,
        Stack(folder, services=SERVICES, env=env, mongo_uri=given_uri) as stack,
        AsyncMongoClient[dict[str, Any]](stack.mongod_uri) as mongod,
        EventPublisher(stack.kafka_connection, source="/benchmark", idempotence=False) as events,
        outcomes_of(stack.kafka_connection) as outcomes,
        httpx.AsyncClient(
            base_url=f"{stack.base_url}/v0/orgs/{stack.organization_id}",
            headers={"Authorization": f"Bearer {stack.api_key}"},
            timeout=60,
        ) as http,
    ):
        await _set_delay(stack, options.embed_delay_ms)
        yield System(stack, mongod, http, events, outcomes)


async def _set_delay(stack: Stack, delay_ms: int) -> None:
    async with httpx.AsyncClient() as http:
        address = stack.models_api_base.removesuffix("/v1") + "/admin/hash"
        (await http.put(address, json={"delay_ms": delay_ms})).raise_for_status()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask until it is so; what is waited for happens in other processes."""
    deadline = monotonic() + _PATIENCE_S
    while not await condition():
        if monotonic() > deadline:
            raise TimeoutError("the benchmark waits too long; look into the logs of its stack")
        await asyncio.sleep(_LOOK_AGAIN_S)
