"""What a dump contains: data of one organization in several states, made through HTTP and Kafka of a running system.

The system may be of another version than these tests, so nothing here but the published interfaces is used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import httpx

from kb_client.events import EventPublisher
from kb_contracts import topics
from kb_contracts.documents import DocumentDeleted, OcrCompleted, TagsChanged
from tests.e2e.kafka_log import KafkaLog
from tests.waiting import until

MODEL: Final = "hash-64"
MANUALS: Final = "Manuals"
CONTRACTS: Final = "Contracts"
LIMITED: Final = "Limited"
FAILED_DOCUMENT: Final = "too-long"
"""Document with more chunks than its KB takes."""
DELETED_DOCUMENT: Final = "deleted"
MALFORMED: Final = b'{"specversion": "1.0", "type": "no.such.type"}'
PROVIDER_KEY: Final = "sk-of-an-upgrade-test"
LARGE_TEXT_CHARACTERS: Final = 1_100_000
"""Least length of a text that is stored in GridFS."""
_PLAIN_TEXT: Final = {"Content-Type": "text/plain; charset=utf-8"}
UPLOADED: Final = datetime(2026, 1, 31, tzinfo=UTC)

_KNOWLEDGE_BASES: Final[Sequence[dict[str, Any]]] = (
    {
        "name": MANUALS,
        "tag_ids": ["manual"],
        "chunker_type": "recursive",
        "chunk_size": 50,
        "chunk_overlap": 0,
        "filterable_metadata": ["year"],
    },
    {
        "name": CONTRACTS,
        "tag_ids": ["contract"],
        "chunker_type": "sentence",
        "chunk_size": 2000,
        "chunk_overlap": 20,
        "text_analyzer": "lucene.german",
    },
    {
        "name": LIMITED,
        "tag_ids": ["limited"],
        "chunker_type": "token",
        "chunk_size": 50,
        "chunk_overlap": 10,
        "max_chunks_per_document": 2,
    },
)
_FIRST_INDEXED: Final = {
    MANUALS: {"pump", "press", "both", "moved"},
    CONTRACTS: {DELETED_DOCUMENT, "both", "large"},
    LIMITED: {"short"},
}
"""Documents of each KB before the later events."""
_INDEXED: Final = {MANUALS: {"pump", "press", "both"}, CONTRACTS: {"moved", "both", "large"}, LIMITED: {"short"}}
_PARAGRAPHS_OF_PRESS: Final = 3
"""Number of paragraphs of the later text of `press`; the first text has more."""


@dataclass(frozen=True, slots=True)
class SystemToFill:
    """Public interfaces of a running system, and its organization."""

    http: httpx.AsyncClient
    """Client with the address of the organization and its administrator's key."""
    events: EventPublisher
    kafka: KafkaLog
    organization_id: str

    async def call(self, method: str, path: str, **options: Any) -> Any:
        answer = await self.http.request(method, path, **options)
        if answer.is_error:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json()


async def fill(system: SystemToFill) -> dict[str, Any]:
    """Create everything, wait until it is indexed, and return what a test expects to find again."""
    for tag_id in ("manual", "contract", "limited", "spare"):
        await system.call("POST", "/tags", json={"tag_id": tag_id, "name": f"Tag {tag_id}"})
    kb_ids = {body["name"]: await _create(system, body) for body in _KNOWLEDGE_BASES}
    await system.call("DELETE", f"/knowledge-bases/{await _create(system, {'name': 'Deleted', 'tag_ids': ['spare']})}")
    await _until_active(system, kb_ids.values())
    await _publish_documents(system)
    await _until_indexed(system, kb_ids, _FIRST_INDEXED, chunks_of_press=_PARAGRAPHS_OF_PRESS + 1)
    await _publish_changes(system)
    await _until_indexed(system, kb_ids, _INDEXED, chunks_of_press=_PARAGRAPHS_OF_PRESS)
    await _until_failed(system)
    await _publish_malformed(system)
    reading_key = await _create_the_rest(system, kb_ids)
    return {
        "reading_key": reading_key,
        "knowledge_bases": {name: await _describe(system, name, kb_id) for name, kb_id in kb_ids.items()},
        "spus": (await system.call("GET", "/usage"))["total_spus"],
    }


async def _create(system: SystemToFill, body: Mapping[str, Any]) -> str:
    created = await system.call("POST", "/knowledge-bases", json={"embedding_model": MODEL, **body})
    return str(created["kb_id"])


async def _until_active(system: SystemToFill, kb_ids: Any) -> None:
    async def all_are_active() -> bool:
        kbs = [await system.call("GET", f"/knowledge-bases/{kb_id}") for kb_id in kb_ids]
        return all(kb["status"] == "active" for kb in kbs)

    await until(all_are_active)


async def _publish_documents(system: SystemToFill) -> None:
    large = "\n\n".join(paragraph(n % 40, "lease") for n in range(LARGE_TEXT_CHARACTERS // 150))
    stored = await system.call("PUT", "/documents/large/text", content=large, headers=_PLAIN_TEXT)
    await system.events.publish_all(
        [
            _document(system, "pump", _text("pump", 6), "manual", metadata={"year": 1999, "author": "Ada"}),
            _document(system, "press", _text("press", _PARAGRAPHS_OF_PRESS + 1), "manual"),
            _document(system, "both", _text("crane", 3), "manual", "contract", metadata={"year": 2001}),
            _document(system, "moved", _text("tenant", 3), "manual"),
            _document(system, DELETED_DOCUMENT, _text("ghost", 3), "contract"),
            _document(system, "large", None, "contract", text_ref=stored["text_ref"]),
            _document(system, "short", paragraph(1, "memo"), "limited"),
            _document(system, FAILED_DOCUMENT, _text("saga", 12), "limited"),
        ]
    )


async def _publish_changes(system: SystemToFill) -> None:
    """Change a text, move a document from one KB to another, and delete one."""
    text = "\n\n".join(paragraph(n, "press") for n in (0, 9, 2))
    ids = {"organization_id": system.organization_id, "revision": 2}
    await system.events.publish_all(
        [
            _document(system, "press", text, "manual", revision=2),
            TagsChanged(document_id="moved", tag_ids=["contract", "spare"], **ids),
            DocumentDeleted(document_id=DELETED_DOCUMENT, **ids),
        ]
    )


async def _publish_malformed(system: SystemToFill) -> None:
    await system.kafka.send(topics.DOCUMENT_EVENTS, b"key", MALFORMED)

    async def there_is_a_dead_letter() -> bool:
        return bool((await system.call("GET", "/dead-letters"))["total_count"])

    await until(there_is_a_dead_letter, every_s=0.5)


def _document(
    system: SystemToFill, document_id: str, text: str | None, *tag_ids: str, revision: int = 1, **fields: Any
) -> OcrCompleted:
    return OcrCompleted(
        organization_id=system.organization_id,
        document_id=document_id,
        revision=revision,
        document_name=f"{document_id}.pdf",
        tag_ids=list(tag_ids),
        upload_date=UPLOADED,
        text=text,
        **fields,
    )


def _text(subject: str, paragraphs: int) -> str:
    return "\n\n".join(paragraph(n, subject) for n in range(paragraphs))


def paragraph(n: int, subject: str) -> str:
    """Build about 35 tokens, so that two paragraphs don't fit into the smallest chunk."""
    return (
        f"Paragraph {n} describes the {subject} of the year {1900 + n}: who ordered it and who built it, what it cost "
        "at that time, and what became of it in the years that followed."
    )


async def _until_indexed(
    system: SystemToFill, kb_ids: Mapping[str, str], expected: Mapping[str, set[str]], *, chunks_of_press: int
) -> None:
    found: dict[str, dict[str, int]] = {}

    async def everything_is_indexed() -> bool:
        for name, kb_id in kb_ids.items():
            listed = (await system.call("GET", f"/knowledge-bases/{kb_id}/documents"))["documents"]
            found[name] = {each["document_id"]: each["chunk_count"] for each in listed if each["status"] == "indexed"}
        in_kbs = {name: set(documents) for name, documents in found.items()}
        return in_kbs == expected and found[MANUALS]["press"] == chunks_of_press

    await until(everything_is_indexed, what=f"{expected} are indexed", progress=lambda: str(found), every_s=0.5)


async def _until_failed(system: SystemToFill) -> None:
    async def the_document_failed() -> bool:
        document = await system.call("GET", f"/documents/{FAILED_DOCUMENT}")
        return [each["status"] for each in document["knowledge_bases"]] == ["failed"]

    await until(the_document_failed, every_s=0.5)


async def _create_the_rest(system: SystemToFill, kb_ids: Mapping[str, str]) -> str:
    """Create keys, a budget, prompts, agents and a conversation; return a key that may only search and read."""
    key = await system.call("POST", "/api-keys", json={"name": "reader", "scopes": ["read", "search"]})
    revoked = await system.call("POST", "/api-keys", json={"name": "revoked", "scopes": ["read"]})
    await system.call("DELETE", f"/api-keys/{revoked['key_id']}")
    await system.call("PUT", "/budget", json={"soft": 500_000, "hard": 1_000_000})
    await system.call("PUT", "/llm-providers/openai", json={"api_key": PROVIDER_KEY})
    prompt = {"name": "Short answers", "content": "Answer in one sentence.", "kb_id": kb_ids[MANUALS]}
    await system.call("POST", "/prompts", json=prompt)
    agent = await system.call("POST", "/agents", json={"name": "Mechanic", "instructions": "Answer about machines."})
    tool = {"kb_id": kb_ids[MANUALS], "tool_name": "manuals", "tool_description": "Manuals of machines"}
    await system.call("POST", f"/agents/{agent['agent_id']}/knowledge-base-tools", json=tool)
    thread = await system.call("POST", "/threads", json={"title": "Pumps"})
    question = {"role": "user", "content": "Who built the pump of the year 1902?"}
    run = {"agent_id": agent["agent_id"], "thread_id": thread["thread_id"], "messages": [question]}
    async with system.http.stream("POST", "/runs", json=run) as answer:
        await answer.aread()
        if answer.is_error:
            raise RuntimeError(f"POST /runs: {answer.status_code} {answer.text}")
    return str(key["api_key"])


async def _describe(system: SystemToFill, name: str, kb_id: str) -> dict[str, Any]:
    """Return the ids of all chunks by document, and the best result of a search for each document's first chunk."""
    chunks, searches = {}, {}
    for document_id in sorted(_INDEXED[name]):
        listed = await list_chunks(system, kb_id, document_id)
        chunks[document_id] = [each["chunk_id"] for each in listed]
        if document_id != "large":  # its passages are repeated
            searches[listed[0]["content"]] = await find_best(system, kb_id, listed[0]["content"])
    return {"kb_id": kb_id, "chunks": chunks, "searches": searches}


async def list_chunks(system: SystemToFill, kb_id: str, document_id: str) -> list[dict[str, Any]]:
    params = {"document_id": document_id, "limit": 100}
    chunks: list[dict[str, Any]] = []
    while True:
        path = f"/knowledge-bases/{kb_id}/chunks"
        page = await system.call("GET", path, params={**params, "skip": len(chunks)})
        chunks += page["chunks"]
        if len(chunks) >= page["total_count"]:
            return chunks


async def find_best(system: SystemToFill, kb_id: str, query: str) -> str | None:
    """Return the id of the best result of a hybrid search; None without a result."""
    body = {"query": query, "top_k": 1, "coalesce_neighbors": 0}
    answer = await system.call("POST", f"/knowledge-bases/{kb_id}/search", json=body)
    return next((str(result["citation"]) for result in answer["results"]), None)
