"""A person who writes entries, and the other services, whose work is done when a test asks for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from kb_api.life_cycle import LifeCycle
from kb_contracts import topics
from kb_knowledge.apply_outcomes import OutcomeHandler
from kb_shared.mongo import knowledge_bases, outbox
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.outbox import OutboxMessage
from tests.integration.indexer.support import Replica, record
from tests.waiting import until


@dataclass
class Author:
    """An organization of its own for each test."""

    organization_id: str
    key: str
    http: httpx.AsyncClient
    indexer: Replica
    life_cycle: LifeCycle
    outcomes: OutcomeHandler
    handled: set[Any] = field(default_factory=set)

    @property
    def database(self) -> Database:
        return self.indexer.database

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.key}", **options.pop("headers", {})}
        url = f"/v0/orgs/{self.organization_id}/knowledge-entries{path}"
        return await self.http.request(method, url, headers=headers, **options)

    async def ok(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        response = await self.request(method, path, **options)
        assert response.is_success, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def refused(self, method: str, path: str, **options: Any) -> tuple[int, str]:
        response = await self.request(method, path, **options)
        return response.status_code, response.json()["type"]

    async def write(self, content: str = "Text.", **fields: Any) -> dict[str, Any]:
        return await self.ok("POST", "", json={"title": "Title", "content": content, **fields})

    async def read(self, entry_id: str) -> dict[str, Any]:
        return await self.ok("GET", f"/{entry_id}")

    async def status(self, entry_id: str) -> str:
        return str((await self.read(entry_id))["embedding_status"])

    async def knowledge_base(self) -> KnowledgeBase:
        kb = await knowledge_bases.find_knowledge(self.database, self.organization_id)
        assert kb is not None
        return kb

    async def build_knowledge_base(self) -> KnowledgeBase:
        """Take the steps of kb-api until the search indexes of the KB of entries are built."""

        async def is_built() -> bool:
            await self.life_cycle.advance_all()
            return (await self.knowledge_base()).status is Status.INDEXING

        await until(is_built, what="the search indexes")
        return await self.knowledge_base()

    async def messages(self, topic: topics.Topic) -> Sequence[OutboxMessage]:
        """Return the messages of this organization that were not handled yet, and count them as handled."""
        waiting = await outbox.find_unsent(self.database, range(outbox.BUCKETS), limit=100_000)
        mine = [
            message
            for message in waiting
            if message.topic == topic.name
            and (message.key or b"").decode().partition("/")[0] == self.organization_id
            and message.id not in self.handled
        ]
        self.handled |= {message.id for message in mine}
        return mine

    async def index(self) -> None:
        """Do the work of the indexer for all events of entries, and of the service for their outcomes."""
        for message in await self.messages(topics.KNOWLEDGE_DOCUMENT_EVENTS):
            await self.indexer.fan_out.handle(record(message.value, key=message.key, topic=message.topic))
        await self.indexer.work()
        await self.hear()

    async def hear(self) -> None:
        """Hand the outcomes to the service."""
        for message in await self.messages(topics.KB_EVENTS):
            await self.outcomes.handle(record(message.value, key=message.key, topic=message.topic))
