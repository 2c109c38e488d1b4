"""Keeps a system under load while faults happen to its brokers, and records the responses of its callers."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Final
from uuid import uuid4

from kb_contracts.documents import DocumentEvent, OcrCompleted
from kb_local.service import Service
from kb_local.stack import Stack
from kb_local.zygote import Zygote
from tests.chaos.availability import AvailabilityRecorder
from tests.chaos.caller import RecordingCaller
from tests.chaos.oracle import Oracle
from tests.chaos.quiescence import until_quiescent
from tests.chaos.workload import Upstream, paragraph
from tests.e2e.system import QUICK_ON_KAFKA, SystemUnderTest, system
from tests.kafka_cluster.cluster import KafkaBrokers
from tests.waiting import until

TAG: Final = "a"
EVENTS_EVERY_S: Final = 0.25
PUTS_EVERY_S: Final = 1.0
SEARCHES_EVERY_S: Final = 0.2
LOOKS_EVERY_S: Final = 0.2
MEANWHILE_WITHIN_S: Final = 90.0
REPORTS: Final[list[str]] = []
"""Findings of each test of this run, for the summary at its end."""


@dataclass(frozen=True, slots=True)
class SharedServers:
    """Servers that systems share, one after the other."""

    brokers: KafkaBrokers
    mongo_uri: str
    models_api_base: str
    zygote: Zygote


@dataclass(slots=True)
class LoadedSystem:
    """A system with two indexers and one KB; `load` keeps it under load."""

    system: SystemUnderTest
    brokers: KafkaBrokers
    kb_id: str
    oracle: Oracle
    upstream: Upstream = field(init=False)
    availability: AvailabilityRecorder = field(default_factory=AvailabilityRecorder)
    caller: RecordingCaller = field(init=False)
    notes: list[str] = field(default_factory=list)
    """Figures that a test adds to its report."""
    verdict: str = "none, the test ended before"
    _documents: int = 0
    _published: list[OcrCompleted] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.upstream = Upstream(self.system.organization_id)
        self.caller = RecordingCaller(self.system, self.availability, retries=True)

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Publish, PUT and search during the block; then wait until all events are acknowledged."""
        stop = asyncio.Event()
        work = (self._publish_until, self._put_until, self._search_until, self._watch_indexing)
        async with asyncio.TaskGroup() as group:
            for each in work:
                group.create_task(each(stop))
            try:
                await self.until_indexed_more(5)
                yield
            finally:
                stop.set()
        await self.caller.wait_until_acknowledged()

    async def until_indexed_more(self, documents: int) -> None:
        """Wait until so many documents are indexed that were not when this was called."""
        before = now = await self._indexed()

        async def more() -> bool:
            nonlocal now
            now = await self._indexed()
            return now >= before + documents

        what = f"{documents} more documents are indexed"
        await until(more, what=what, within_s=MEANWHILE_WITHIN_S, every_s=0.2, progress=lambda: now)

    async def until_fanned_out(self, documents: int) -> None:
        """Wait until the events of so many documents have reached the database."""

        known = 0

        async def reached() -> bool:
            nonlocal known
            known = await self.system.database.documents.count_documents({})
            return known >= documents

        await until(reached, what=f"{documents} documents are known", progress=lambda: known)

    async def publish(self, documents: int) -> None:
        """Publish new documents and return when all are acknowledged."""
        for _ in range(documents):
            await self.caller.publish(self.next_event())
        await self.caller.wait_until_acknowledged()

    async def put(self, event: OcrCompleted) -> None:
        """Send the event through kb-api until it is accepted."""
        body = event.model_dump(mode="json", exclude={"organization_id", "document_id"}, exclude_none=True)
        await self.caller.change("PUT", f"/documents/{event.document_id}", body)

    async def until_accepted_more(self, changes: int) -> None:
        """Wait until kb-api has accepted so many more events of documents."""
        before = self._accepted

        def more() -> bool:
            return self._accepted >= before + changes

        what = f"{changes} more changes are accepted"
        await until(more, what=what, within_s=MEANWHILE_WITHIN_S, progress=lambda: self._accepted)

    @property
    def _accepted(self) -> int:
        return self.availability.count("change", 202)

    async def publish_all_again(self) -> None:
        """Publish all events again, as an upstream does after its topic has lost some."""
        for event in self._published:
            await self.caller.publish(event)
        await self.caller.wait_until_acknowledged()

    async def assert_consistent(self) -> None:
        """Heal the brokers and wait until the system is idle; then there may be no problem, now or earlier."""
        self.verdict = "none, it never came to rest"
        await self.brokers.heal()
        problems = await self._problems()
        self.verdict = "; ".join(problems) or "nothing lost, nothing wrong, nothing restarted"
        assert problems == []

    async def _problems(self) -> list[str]:
        await until_quiescent(self.system)
        ended = [f"{each.name} ended" for each in self.system.stack.services.values() if not each.running]
        unready = [f"{each.name} is not ready" for each in self._running() if not await each.is_ready()]
        found = [f"{problem.document_id} {problem.what}" for problem in await self.oracle.check(self.system)]
        return [*ended, *unready, *self.caller.violations, *found]

    def next_event(self, *, paragraphs: int = 2) -> OcrCompleted:
        """Return the event of a new document, and record it in the oracle."""
        self._documents += 1
        document_id = f"document-{self._documents:04}"
        event = self.upstream.ocr(document_id, [paragraph(f"{document_id} {n}") for n in range(paragraphs)], tags=[TAG])
        self._expect(event)
        return event

    def _expect(self, event: OcrCompleted) -> None:
        self.oracle.record_published(event)
        self._published.append(event)

    async def _publish_until(self, stop: asyncio.Event) -> None:
        while not await _stopped(stop, EVENTS_EVERY_S):
            await self.caller.publish(self.next_event())
            if len(self._published) % 5 == 0:
                await self.caller.publish(self._revised(self._published[-5]))

    def _revised(self, event: OcrCompleted) -> DocumentEvent:
        text = [paragraph(f"{event.document_id} {n}") for n in (1, 2, 3)]
        again = self.upstream.ocr(event.document_id, text, tags=[TAG], revision=event.revision + 1)
        self._expect(again)
        return again

    async def _put_until(self, stop: asyncio.Event) -> None:
        while not await _stopped(stop, PUTS_EVERY_S):
            await self.put(self.next_event())

    async def _search_until(self, stop: asyncio.Event) -> None:
        while not await _stopped(stop, SEARCHES_EVERY_S):
            answer = await self.system.http.post(f"/knowledge-bases/{self.kb_id}/search", json={"query": "anything"})
            self.availability.record("search", answer.status_code, success=answer.status_code == 200)

    async def _watch_indexing(self, stop: asyncio.Event) -> None:
        """Note when documents get indexed."""
        before = -1
        while not await _stopped(stop, LOOKS_EVERY_S):
            now = await self._indexed()
            self.availability.record_progress("indexing", success=now != before)
            before = now

    async def _indexed(self) -> int:
        return await self.system.database.document_index.count_documents({"kb_id": self.kb_id, "version": {"$gt": 0}})

    def _running(self) -> Sequence[Service]:
        return [each for each in self.system.stack.services.values() if each.running]


async def _stopped(stop: asyncio.Event, pause_s: float) -> bool:
    """Wait for a pause; return whether all shall stop."""
    try:
        async with asyncio.timeout(pause_s):
            await stop.wait()
    except TimeoutError:
        return False
    return True


@asynccontextmanager
async def start_loaded_system(
    shared_servers: SharedServers, folder: Path, title: str, *, env: Mapping[str, str] = QUICK_ON_KAFKA
) -> AsyncIterator[LoadedSystem]:
    """Start a system with its own topics and database; at the end, report the responses of its callers.

    Args:
        shared_servers: run already.
        folder: for its files.
        title: of the report.
        env: settings of all services.
    """
    name = f"busy_{uuid4().hex[:12]}"
    async with (
        Stack(
            folder,
            services=("kb_api", "kb_indexer", "kb_indexer:2", "kb_search"),
            env=env,
            mongo_uri=shared_servers.mongo_uri,
            kafka=shared_servers.brokers.bootstrap(),
            models_api_base=shared_servers.models_api_base,
            zygote=shared_servers.zygote,
            database=name,
            topic_prefix=f"{name}.",
        ) as stack,
        system(stack, http_timeout_s=120) as opened,
    ):
        await opened.create_tags(TAG)
        oracle = Oracle()
        kb_id = await opened.create_knowledge_base(TAG)
        oracle.record_knowledge_base(kb_id, TAG)
        await opened.until_active(kb_id)
        loaded = LoadedSystem(opened, shared_servers.brokers, kb_id, oracle)
        began = monotonic()
        try:
            yield loaded
        finally:
            seen = loaded.availability.summary().lines()
            lines = [f"{title} ({monotonic() - began:.0f} s)", *seen, *loaded.notes, f"verdict: {loaded.verdict}"]
            REPORTS.append("\n    ".join(lines))
        await opened.database.client.drop_database(name)
    await shared_servers.brokers.delete_topics_of(f"{name}.")
