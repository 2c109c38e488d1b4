"""A system, an upstream that publishes to it, and an oracle that checks the result."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from kb_contracts import topics
from kb_contracts.documents import DocumentEvent
from kb_contracts.topics import Topic
from tests.chaos.oracle import Oracle
from tests.chaos.quiescence import until_quiescent
from tests.chaos.workload import Upstream
from tests.e2e.system import SystemUnderTest


@dataclass(frozen=True, slots=True)
class RunningSystem:
    system: SystemUnderTest
    oracle: Oracle
    upstream: Upstream

    async def create_tags(self, number: int) -> Sequence[str]:
        """Tags that no other test uses."""
        tag_ids = [f"tag-{uuid4().hex[:12]}" for _ in range(number)]
        await self.system.create_tags(*tag_ids)
        return tag_ids

    async def create_knowledge_base(self, *tag_ids: str) -> str:
        """A KB that is active already."""
        kb_id = await self.system.create_knowledge_base(*tag_ids)
        self.oracle.record_knowledge_base(kb_id, *tag_ids)
        await self.system.until_active(kb_id)
        return kb_id

    async def publish(self, *events: DocumentEvent) -> None:
        self.oracle.record_published(*events)
        await self.system.events.publish_all(events)

    async def send_malformed(
        self, malformed: bytes | None, *, key: bytes | None, topic: Topic = topics.DOCUMENT_EVENTS
    ) -> None:
        """Send a record that can't be decoded."""
        self.oracle.malformed.append(malformed)
        await self.system.kafka.send(topic, key, malformed)

    async def assert_consistent(self) -> None:
        """Wait until the system is idle, and check with the oracle what all tests have published so far."""
        await until_quiescent(self.system)
        problems = await self.oracle.check(self.system)
        assert not problems, "\n".join(map(str, problems))
