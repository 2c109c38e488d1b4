"""The load of the benchmarks, on a running system: what it measures, and the recount that follows a soak."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import aiohttp

from benchmarks.corpus.documents import RealDocument
from benchmarks.load.population import EVENT_KINDS, LoadPartition
from benchmarks.load.target import LoadTarget
from benchmarks.load.workload import LoadShape, LoadWorkload
from benchmarks.soak.drift import find_drift
from benchmarks.soak.recount import find_differences
from kb_client.events import EventPublisher
from kb_contracts.cloudevents import Payload
from kb_contracts.documents import DocumentEvent
from tests.chaos.quiescence import until_quiescent
from tests.chaos.workload import paragraph
from tests.e2e.running_system import RunningSystem

SOURCES = [
    RealDocument(f"source-{number}", f"Source {number}", "en", ("doc", "doc.main"), paragraph(f"source {number}"))
    for number in range(10)
]
SHAPE = LoadShape(
    searches_per_s=10,
    events_per_s=10,
    event_mix=dict.fromkeys(EVENT_KINDS, 1.0),
    duplicates=0.2,
    modes={"hybrid": 1, "vector": 1, "text": 1},
    filtered=0.3,
    skew=1.0,
    queries_of_kb=5,
    samples_per_s=5,
    patience_s=120,
    max_in_flight=1_000,
    seed=1,
)


async def test_load_is_answered_and_the_recount_finds_only_what_differs(running: RunningSystem) -> None:
    async with _target(running) as target:
        workload = LoadWorkload(target, SHAPE, await _partitions(running, number=2), SOURCES)
        await workload.preload(10)
        await workload.run(2)
        await until_quiescent(running.system)

        figures = workload.figures(seconds=2)
        assert set(figures["searches"]) == {"hybrid", "vector", "text"}
        assert set(figures["events"]) == set(EVENT_KINDS)
        assert not any(each["errors"] for kind in ("searches", "events") for each in figures[kind].values())
        assert figures["duplicates_published"] > 0
        assert figures["time_to_searchable"]["count"] > 0
        assert figures["time_to_searchable"]["not_found"] == 0
        assert await find_differences(running.system.database, workload.population) == []
        assert await find_drift(target) == {}
        await running.assert_consistent()
        await _check_that_differences_are_found(running, workload)


async def _check_that_differences_are_found(running: RunningSystem, workload: LoadWorkload) -> None:
    """Pretend that other events were published than those that were."""
    population, database = workload.population, running.system.database
    kept, changed, *_ = [each for documents in population.documents.values() for each in documents]

    changed.text_revision += 1
    old = await find_differences(database, population)
    changed.text_revision -= 1
    population.documents[kept.home.kb_id].remove(kept)
    left_over = await find_differences(database, population)
    missing = population.plan_creation(kept.home).document
    both = await find_differences(database, population)

    # One for each KB that the document is in.
    assert len(old) == len(changed.tag_ids)
    assert all(each.startswith(f"{changed.document_id} in ") and "is indexed in revision" in each for each in old)
    assert len(left_over) == len(kept.tag_ids)
    assert all(each.startswith(f"{kept.document_id} is left over in ") for each in left_over)
    assert len(both) == len(left_over) + len(missing.tag_ids)
    assert f"{missing.document_id} is missing in {missing.home.kb_id}" in both


@asynccontextmanager
async def _target(running: RunningSystem) -> AsyncIterator[LoadTarget]:
    stack = running.system.stack
    urls = [stack.services[name].url for name in ("kb_api", "kb_search")]
    async with aiohttp.ClientSession() as http:
        events = _RecordingPublisher(running)
        yield LoadTarget(urls[0], urls[1], events, http, {stack.organization_id: stack.api_key}, stack)


async def _partitions(running: RunningSystem, *, number: int) -> list[LoadPartition]:
    tag_ids = await running.create_tags(number)
    organization_id = running.system.organization_id
    return [LoadPartition(organization_id, await running.create_knowledge_base(tag_id), tag_id) for tag_id in tag_ids]


class _RecordingPublisher(EventPublisher):
    """Publishes what the oracle of the running system knows then."""

    def __init__(self, running: RunningSystem) -> None:
        self._running = running

    async def publish(self, event: Payload, *, time: datetime | None = None, traceparent: str | None = None) -> None:
        self._record([event])
        await self._running.system.events.publish(event, time=time, traceparent=traceparent)

    async def publish_all(self, events: Sequence[Payload], *, traceparent: str | None = None) -> None:
        self._record(events)
        await self._running.system.events.publish_all(events, traceparent=traceparent)

    def _record(self, events: Sequence[Payload]) -> None:
        known = self._running.oracle.events
        # The oracle expects each event once, however often it is published.
        for event in events:
            if isinstance(event, DocumentEvent) and event not in known[event.document_id]:
                self._running.oracle.record_published(event)
