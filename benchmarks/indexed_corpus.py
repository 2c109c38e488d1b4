"""A knowledge base filled as every one is: events in through Kafka, searches over HTTP."""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.members import mongo_uri
from kb_client.events import EventPublisher
from kb_contracts.documents import OcrCompleted
from kb_local.ports import NO_TLS
from kb_local.stack import Stack
from kb_shared.observability import logs

_TAG: Final = "corpus"
_LAST: Final = "indexed-after-all-others"
_POLL_S: Final = 0.2
_WITHOUT_LIMITS: Final = {
    f"KB_{limit}_PER_MINUTE_OF_{whose}": "0"
    for limit in ("SEARCHES", "RUNS", "ADMINISTRATIVE_CALLS")
    for whose in ("KEY", "ORGANIZATION")
} | {"KB_HTTP_MAX_REQUESTS": "10000", "KB_HTTP_MAX_REQUESTS_OF_ORGANIZATION": "10000"}


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    doc_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class CorpusKnowledgeBase:
    stack: Stack
    http: httpx.AsyncClient
    kb_id: str

    async def view(self) -> dict[str, Any]:
        answer = await self.http.get(f"/knowledge-bases/{self.kb_id}")
        view: dict[str, Any] = answer.raise_for_status().json()
        return view

    async def search(self, text: str, **options: Any) -> list[dict[str, Any]]:
        answer = await self.http.post(f"/knowledge-bases/{self.kb_id}/search", json={"query": text, **options})
        results: list[dict[str, Any]] = answer.raise_for_status().json()["results"]
        return results


@contextmanager
def folder_for(kept: Path | None) -> Iterator[Path]:
    """Open the folder of a stack, kept or temporary. Its logs go to stderr: stdout is for figures."""
    logs.configure("benchmark", "WARNING")
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="kb-benchmark-") as folder:
        yield Path(folder)


def client_of(stack: Stack, base_url: str) -> httpx.AsyncClient:
    """Return a client for the stack's organization; `base_url` is of the stack, or of one of its services."""
    return httpx.AsyncClient(
        base_url=f"{base_url}/v0/orgs/{stack.organization_id}",
        headers={"Authorization": f"Bearer {stack.api_key}"},
        timeout=60,
        trust_env=False,
        verify=NO_TLS,
    )


@asynccontextmanager
async def indexed(
    folder: Path, documents: Sequence[CorpusDocument], modes: Sequence[str], *, members: int = 1, **options: Any
) -> AsyncIterator[CorpusKnowledgeBase]:
    """Run a stack whose one KB, created with `options`, holds these documents, all of them visible to searches."""
    async with (
        mongo_uri(folder, members) as given_uri,
        Stack(
            folder, services=("kb_api", "kb_indexer", "kb_search"), env=_WITHOUT_LIMITS, mongo_uri=given_uri
        ) as stack,
        client_of(stack, stack.base_url) as http,
    ):
        kb = await _found(stack, http, len(documents)) or await _created(stack, http, options)
        await _index(stack, kb, documents, modes)
        yield kb


async def _found(stack: Stack, http: httpx.AsyncClient, documents: int) -> CorpusKnowledgeBase | None:
    """The KB that an earlier run left in the folder."""
    listed = (await http.get("/knowledge-bases")).raise_for_status().json()["knowledge_bases"]
    return next(
        (CorpusKnowledgeBase(stack, http, kb["kb_id"]) for kb in listed if kb["document_count"] == documents + 1), None
    )


async def _created(stack: Stack, http: httpx.AsyncClient, options: Mapping[str, Any]) -> CorpusKnowledgeBase:
    (await http.post("/tags", json={"tag_id": _TAG, "name": _TAG})).raise_for_status()
    body = {"name": "Benchmark", "tag_ids": [_TAG], **options}
    created = (await http.post("/knowledge-bases", json=body)).raise_for_status().json()
    return CorpusKnowledgeBase(stack, http, created["kb_id"])


async def _index(
    stack: Stack, kb: CorpusKnowledgeBase, documents: Sequence[CorpusDocument], modes: Sequence[str]
) -> None:
    """Publish all, then one more: the indexes follow in order, so when that is found, all before it are.

    What is indexed already changes nothing.
    """
    async with EventPublisher(stack.kafka_connection, source="/benchmark", idempotence=False) as events:
        await events.publish_all([_event(stack.organization_id, document) for document in documents])
        await _until_indexed(kb, len(documents))
        await events.publish_all([_event(stack.organization_id, CorpusDocument(_LAST, _LAST, _LAST))])
    for mode in modes:
        while not await kb.search(_LAST, mode=mode, document_ids=[_LAST]):  # noqa: ASYNC110  # another process works
            await asyncio.sleep(_POLL_S)


async def _until_indexed(kb: CorpusKnowledgeBase, count: int) -> None:
    indexed, shown = -1, -1
    while indexed < count:
        answer = await kb.http.get(f"/knowledge-bases/{kb.kb_id}/documents", params={"limit": 1, "status": "failed"})
        if failed := answer.raise_for_status().json()["total_count"]:
            raise RuntimeError(f"{failed} documents could not be indexed: {answer.text}")
        indexed = (await kb.view())["document_count"]
        if indexed // 500 != shown:
            shown = indexed // 500
            print(f"indexed {indexed} of {count}", file=sys.stderr)
        await asyncio.sleep(_POLL_S)


def _event(organization_id: str, document: CorpusDocument) -> OcrCompleted:
    return OcrCompleted(
        organization_id=organization_id,
        document_id=document.doc_id,
        revision=1,
        document_name=document.title or document.doc_id,
        tag_ids=[_TAG],
        upload_date=datetime(2026, 1, 1, tzinfo=UTC),
        text=f"{document.title}\n\n{document.text}".strip(),
    )
