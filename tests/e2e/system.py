"""The running system from outside: HTTP as a caller of it, Kafka as an upstream, MongoDB to look at only."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from kb_client.events import EventPublisher
from kb_local.ports import NO_TLS
from kb_local.stack import Stack
from tests.e2e.kafka_log import KafkaLog
from tests.kafka_access import SUPER_USER, UPSTREAM, KafkaAccess
from tests.waiting import DEADLINE_S, until

__all__ = ["CHUNK_SIZE", "DIMENSIONS", "MODEL", "QUICK", "QUICK_ON_KAFKA", "SystemUnderTest", "system", "until"]

POLL_S = 0.05
"""A request each time costs the system what its work needs."""
MODEL = "hash-64"
DIMENSIONS = 64
CHUNK_SIZE = 50
"""The least there may be, so that a paragraph is a chunk."""

QUICK = {
    "KB_JOB_LEASE_S": "2",
    "KB_SWEEP_INTERVAL_S": "0.5",
    "KB_KAFKA_SESSION_TIMEOUT_MS": "2000",
    # Many processes that ask the broker twenty times a second leave little for the work.
    "KB_KAFKA_FETCH_MAX_WAIT_MS": "150",
}
"""Settings under which a system forgives soon what a test does to it."""
# The shortest session that Kafka takes by default (`group.min.session.timeout.ms`).
QUICK_ON_KAFKA = {**QUICK, "KB_KAFKA_SESSION_TIMEOUT_MS": "6000"}
"""The same for a system on Apache Kafka."""


@dataclass(frozen=True, slots=True)
class SystemUnderTest:
    """One organization's view of a stack."""

    stack: Stack
    http: httpx.AsyncClient
    events: EventPublisher
    kafka: KafkaLog
    database: AsyncDatabase[dict[str, Any]]
    """Never written to: what is checked is what the services made of events."""

    @property
    def organization_id(self) -> str:
        return self.stack.organization_id

    async def create_tags(self, *tag_ids: str) -> None:
        for tag_id in tag_ids:
            (await self.http.post("/tags", json={"tag_id": tag_id, "name": tag_id})).raise_for_status()

    async def create_knowledge_base(self, *tag_ids: str, **options: Any) -> str:
        """Create a KB of small chunks without overlap, and return its id at once."""
        created = await self.http.post("/knowledge-bases", json=new_knowledge_base(*tag_ids, **options))
        assert created.status_code == 201, created.text
        return str(created.json()["kb_id"])

    async def until_active(self, *kb_ids: str, within_s: float = DEADLINE_S) -> None:
        """Wait until all KBs are active, for `within_s` since one of them last came further."""
        progress: tuple[tuple[str, int], ...] = ()

        async def all_active() -> bool:
            nonlocal progress
            answers = [await self.http.get(f"/knowledge-bases/{kb_id}") for kb_id in kb_ids]
            kbs = [answer.raise_for_status().json() for answer in answers]
            progress = tuple((kb["status"], kb["document_count"]) for kb in kbs)
            return all(kb["status"] == "active" for kb in kbs)

        await until(all_active, within_s=within_s, every_s=POLL_S, progress=lambda: progress)

    async def search(self, kb_id: str, query: str, **options: Any) -> list[dict[str, Any]]:
        """The results of a search that must be answered."""
        answer = await self.http.post(f"/knowledge-bases/{kb_id}/search", json={"query": query, **options})
        assert answer.status_code == 200, answer.text
        results: list[dict[str, Any]] = answer.json()["results"]
        return results

    async def until_found(self, kb_id: str, document_ids: Sequence[str], **options: Any) -> None:
        """Wait until a search that asks for twenty results finds exactly these documents."""

        found: frozenset[str] = frozenset()

        async def exactly_these_are_found() -> bool:
            nonlocal found
            # Also passages that have nothing to do with the query.
            minimum = {} if options.get("mode") == "text" else {"min_score": 0}
            results = await self.search(kb_id, "anything", top_k=20, **minimum, **options)
            found = frozenset(result["document_id"] for result in results)
            return found == set(document_ids)

        what = f"exactly {list(document_ids)} in search"
        await until(exactly_these_are_found, what=what, every_s=POLL_S, progress=lambda: found)


def new_knowledge_base(*tag_ids: str, **options: Any) -> dict[str, Any]:
    """Return the body that asks for a KB of small chunks without overlap."""
    return {
        "name": f"KB of {', '.join(tag_ids)}",
        "tag_ids": list(tag_ids),
        "embedding_model": MODEL,
        "chunk_size": CHUNK_SIZE,
        "chunk_overlap": 0,
        **options,
    }


@asynccontextmanager
async def system(
    stack: Stack, *, http_timeout_s: float = 30, access: KafkaAccess | None = None
) -> AsyncIterator[SystemUnderTest]:
    """Open what it takes to look at a stack that runs.

    Args:
        stack: runs already.
        http_timeout_s: how long an answer may take.
        access: to Kafka, where each principal has rights of its own.
    """
    publishing = reading = stack.kafka_connection
    if access is not None:
        publishing = access.connection_of(UPSTREAM, stack.kafka)
        reading = access.connection_of(SUPER_USER, stack.kafka)
    async with (
        httpx.AsyncClient(
            base_url=f"{stack.base_url}/v0/orgs/{stack.organization_id}",
            headers={"Authorization": f"Bearer {stack.api_key}"},
            timeout=http_timeout_s,
            trust_env=False,
            verify=NO_TLS,
        ) as http,
        AsyncMongoClient[dict[str, Any]](stack.mongod_uri, tz_aware=True) as mongo,
        EventPublisher(
            publishing,
            source="/tests/upstream",
            topic_prefix=stack.topic_prefix,
            # The local broker has none.
            idempotence=stack.broker is None,
        ) as events,
    ):
        yield SystemUnderTest(stack, http, events, KafkaLog(reading, stack.topic_prefix), mongo[stack.database])
