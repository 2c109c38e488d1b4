"""One pass: publish every document to Kafka, wait until all is as it should be, say what that took."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final

import httpx
from pymongo import AsyncMongoClient

from benchmarks.index_throughput.outcomes import Outcomes
from benchmarks.index_throughput.servers import look, spent
from kb_client.events import EventPublisher
from kb_local.stack import Stack
from kb_shared.contracts.documents import OcrCompleted

TAG: Final = "benchmark"
_PATIENCE_S: Final = 1_800.0
_SAMPLE: Final = 5


@dataclass(frozen=True, slots=True)
class Target:
    stack: Stack
    mongod: AsyncMongoClient[dict[str, Any]]
    http: httpx.AsyncClient
    events: EventPublisher
    outcomes: Outcomes
    kb_id: str

    @property
    def chunks(self) -> Any:
        return self.mongod[self.stack.database][f"kb_vectors_{self.kb_id}"]


async def run_pass(target: Target, texts: Sequence[str], *, revision: int) -> dict[str, Any]:
    """Publish revision `revision` of all texts and measure until each is indexed and found."""
    before = await look(target.stack, target.mongod)
    began = monotonic()
    await target.events.publish_all([_event(target, number, text, revision) for number, text in enumerate(texts)])
    published_s = monotonic() - began
    async with asyncio.timeout(_PATIENCE_S):
        last = await target.outcomes.until_indexed(len(texts), revision=revision)
    await until(lambda: _all_found(target, last[-_SAMPLE:]))
    seconds = monotonic() - began
    used = spent(before, await look(target.stack, target.mongod))
    chunks = await target.chunks.count_documents({"until": None})
    documents = len(texts)
    return {
        "docs_per_s": round(documents / seconds, 2),
        "chunks_per_s": round(chunks / seconds, 1),
        "chunks": chunks,
        "seconds": round(seconds, 3),
        "publish_s": round(published_s, 3),
        **{key: value for key, value in asdict(used).items() if key not in ("commands", "documents_examined")},
        "mongo_commands_per_doc": round(sum(used.commands.values()) / documents, 2),
        "mongo_commands_per_doc_by_name": {name: round(count / documents, 3) for name, count in used.commands.items()},
        "mongo_docs_examined_per_chunk": round(used.documents_examined / chunks, 3),
    }


def _event(target: Target, number: int, text: str, revision: int) -> OcrCompleted:
    return OcrCompleted(
        organization_id=target.stack.organization_id,
        document_id=f"doc-{number}",
        revision=revision,
        document_name=f"Document {number}",
        tag_ids=[TAG],
        upload_date=datetime(2026, 1, 1, tzinfo=UTC),
        text=text,
    )


async def _all_found(target: Target, document_ids: Sequence[str]) -> bool:
    """The documents indexed last are found over HTTP; what came before them in the change stream is, too."""
    return all(await asyncio.gather(*(_found(target, document_id) for document_id in document_ids)))


async def _found(target: Target, document_id: str) -> bool:
    answer = await target.http.post(
        f"/knowledge-bases/{target.kb_id}/search",
        json={"query": "anything", "document_ids": [document_id], "top_k": 1},
    )
    return bool(answer.raise_for_status().json()["results"])


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Ask until it is so; what is waited for happens in other processes."""
    deadline = monotonic() + _PATIENCE_S
    while not await condition():
        if monotonic() > deadline:
            raise TimeoutError("the benchmark waits too long; look into the logs of its stack")
        await asyncio.sleep(0.02)
