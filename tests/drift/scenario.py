"""Drift of every kind, planted at random in documents of two KBs while others are indexed and read."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from kb_contracts.cloudevents import Payload
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel
from kb_shared.mongo import document_index, kb_slots, knowledge_bases, spu_ledger, vectors
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.vector import to_binary
from tests.drift.searching import DocumentSearch
from tests.integration.indexer.planted_drift import forget_embeddings
from tests.integration.indexer.support import DIMENSIONS, LANES, Replica, Tenant, paragraph, record, text_of
from tests.waiting import until

DRIFTED_SHARE: Final = 0.05
TAGS: Final = ("a", "b")
MAX_PASSES: Final = 2
MAX_PARAGRAPHS: Final = 3
_AT_ONCE: Final = 16
"""Number of documents that are indexed at the same time."""


@dataclass(slots=True)
class DriftReport:
    """Figures of a run that has succeeded."""

    documents: int
    planted: Counter[str] = field(default_factory=Counter)
    passes: list[Counter[str]] = field(default_factory=list)
    """Drift that each pass found."""
    reads: int = 0
    """Number of documents that were read while repairs went on."""
    searches: int = 0
    """Number of searches while repairs went on."""
    indexed_meanwhile: int = 0
    spus_charged: int = 0
    """SPUs since the drift was planted: of repairs, and of documents that were indexed meanwhile."""

    def figures(self) -> dict[str, Any]:
        """Return the figures for a JSON object."""
        return {
            "documents": self.documents,
            "planted": dict(self.planted),
            "passes": [dict(found) for found in self.passes],
            "reads": self.reads,
            "searches": self.searches,
            "indexed_meanwhile": self.indexed_meanwhile,
            "spus_charged": self.spus_charged,
        }


@dataclass(slots=True)
class DriftScenario:
    """One organization, its documents as its upstream knows them, and the faults that are planted."""

    tenant: Tenant
    indexer: Replica
    lossy: Replica
    """Indexer that stores events and forgets to open jobs for them, as one that crashes in between."""
    search: DocumentSearch
    rng: random.Random
    kbs: dict[str, KnowledgeBase] = field(default_factory=dict)
    """KBs by their tag."""
    texts: dict[str, str] = field(default_factory=dict)
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    untouched: list[str] = field(default_factory=list)
    """Documents without drift, which readers look at."""
    _revision: int = 1

    async def fill(self, documents: int) -> None:
        for tag in TAGS:
            created = await self.tenant.create_kb(tag)
            self.kbs[tag] = await knowledge_bases.get(self.tenant.database, created.key)
        for first in range(0, documents, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, documents))
            events = [event for number in numbers for event in self._events(f"d{number:05}", number)]
            await run_all_or_cancel(self.indexer.publish(event) for event in events)
            await run_all_or_cancel(
                self.indexer.sync.handle(record(message.value, key=message.key, topic=message.topic))
                for message in self.indexer.producer.sent_to(*LANES)
            )
        await self.indexer.work()

    def _events(self, document_id: str, number: int) -> list[Payload]:
        revision = self.next_revision()
        paragraphs = self.rng.randint(1, MAX_PARAGRAPHS)
        self.texts[document_id] = text_of(*range(number * MAX_PARAGRAPHS, number * MAX_PARAGRAPHS + paragraphs))
        self.tags[document_id] = self.rng.choice([("a",), ("b",), ("a", "b")])
        tags = self.tags[document_id]
        return [self.tenant.ocr(document_id, self.texts[document_id], revision=revision, tags=tags)]

    def next_revision(self) -> int:
        self._revision += 1
        return self._revision

    async def plant(self) -> Counter[str]:
        """Plant one kind of drift in each of some documents; return how often each kind was planted."""
        chosen = self.rng.sample(sorted(self.texts), max(len(PLANTS), round(len(self.texts) * DRIFTED_SHARE)))
        self.untouched = sorted(self.texts.keys() - set(chosen))
        planted: Counter[str] = Counter()
        for number, document_id in enumerate(chosen):
            kind, plant = PLANTS[number % len(PLANTS)]
            await plant(self, document_id)
            planted[kind] += 1
        return planted

    async def count_spus_of_indexing(self) -> int:
        charges = self.tenant.database[spu_ledger.NAME].find(
            {"organization_id": self.tenant.organization_id, "operation": "index"}, {"count": 1}
        )
        return sum([int(charge["count"]) async for charge in charges])

    def kb_of(self, document_id: str) -> KnowledgeBase:
        return self.kbs[self.tags[document_id][0]]

    def expected(self, tag: str) -> Mapping[str, str]:
        return {i: text for i, text in self.texts.items() if tag in self.tags[i]}

    async def make_pass(self) -> Counter[str]:
        """Reconcile both KBs as a full pass does; return what was found."""
        found: Counter[str] = Counter()
        for kb in self.kbs.values():
            found += (await self.indexer.reconcile(kb)).found
        return found

    @asynccontextmanager
    async def busy(self, report: DriftReport) -> AsyncIterator[None]:
        """Index new documents, read and search others in the block."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._index_new(stop, report))
            tasks.create_task(self._read(stop, report))
            tasks.create_task(self._search(stop, report))
            try:
                yield
            finally:
                stop.set()

    async def _index_new(self, stop: asyncio.Event, report: DriftReport) -> None:
        while not stop.is_set():
            number = len(self.texts)
            await self.indexer.publish(*self._events(f"new{number:05}", number))
            await self.indexer.handle_commands()
            report.indexed_meanwhile += 1

    async def _read(self, stop: asyncio.Event, report: DriftReport) -> None:
        """Read documents that have no drift: whatever is repaired around them, they are whole."""
        while not stop.is_set():
            document_id = self.rng.choice(self.untouched)
            kb = self.kb_of(document_id)
            chunks = vectors.chunks_of(self.tenant.database, kb)
            live = await vectors.count_live(chunks, [document_id])
            row = await document_index.find_by_ids(self.tenant.database, kb.key, [document_id])
            assert live[document_id] == row[document_id].chunk_count, f"{document_id} is not whole"
            report.reads += 1

    async def until_searchable(self) -> None:
        """Wait until the search indexes have what was indexed last in each KB."""
        for tag, kb in self.kbs.items():
            document_id = max(self.expected(tag))
            await until(lambda kb=kb, i=document_id: self._is_found(kb, i), what=f"{document_id} in search")

    async def _is_found(self, kb: KnowledgeBase, document_id: str) -> bool:
        return len(await self.search.find(kb, document_id, paragraph(0))) > 0

    async def _search(self, stop: asyncio.Event, report: DriftReport) -> None:
        """Search documents that have no drift: their paragraphs are found, and nothing else of them."""
        while not stop.is_set():
            document_id = self.rng.choice(self.untouched)
            paragraphs = self.texts[document_id].split("\n\n")
            found = await self.search.find(self.kb_of(document_id), document_id, self.rng.choice(paragraphs))
            assert sorted(found) == sorted(paragraphs), f"a search finds {len(found)} passages of {document_id}"
            report.searches += 1


async def _lose_text(scenario: DriftScenario, document_id: str) -> None:
    revision = scenario.next_revision()
    scenario.texts[document_id] = text_of(700_000 + revision)
    await scenario.lossy.publish(
        scenario.tenant.ocr(
            document_id, scenario.texts[document_id], revision=revision, tags=scenario.tags[document_id]
        )
    )


async def _lose_removal(scenario: DriftScenario, document_id: str) -> None:
    revision = scenario.next_revision()
    scenario.tags[document_id] = ()
    await scenario.lossy.publish(scenario.tenant.tagged(document_id, revision=revision))


async def _lose_metadata(scenario: DriftScenario, document_id: str) -> None:
    revision = scenario.next_revision()
    await scenario.lossy.publish(scenario.tenant.described(document_id, {"n": revision}, revision=revision))


async def _set_config(scenario: DriftScenario, document_id: str) -> None:
    await scenario.tenant.database[document_index.NAME].update_one(
        {"kb_id": scenario.kb_of(document_id).kb_id, "document_id": document_id}, {"$set": {"config_hash": "another"}}
    )


async def _delete_row_and_chunks(scenario: DriftScenario, document_id: str) -> None:
    await _delete_row(scenario, document_id)
    await _chunks(scenario, document_id).delete_many({"document_id": document_id})


async def _delete_row(scenario: DriftScenario, document_id: str) -> None:
    row = {"kb_id": scenario.kb_of(document_id).kb_id, "document_id": document_id}
    await scenario.tenant.database[document_index.NAME].delete_one(row)


async def _delete_chunk(scenario: DriftScenario, document_id: str) -> None:
    await _chunks(scenario, document_id).delete_one({"document_id": document_id})


async def _renumber_chunk(scenario: DriftScenario, document_id: str) -> None:
    await _chunks(scenario, document_id).update_one({"document_id": document_id}, {"$set": {"chunk_index": 99}})


async def _copy_chunks(scenario: DriftScenario, document_id: str) -> None:
    """Leave chunks of a document that does not exist."""
    chunks = _chunks(scenario, document_id)
    ghost = f"ghost-{document_id}"
    rows = await chunks.find({"document_id": document_id}).to_list()
    await chunks.insert_many(
        [row | {"_id": row["_id"].replace(document_id, ghost), "document_id": ghost} for row in rows]
    )


async def _harm_vector(scenario: DriftScenario, document_id: str) -> None:
    harm = scenario.rng.choice([None, to_binary(np.zeros(DIMENSIONS, dtype=np.float32)), [1.0]])
    await _chunks(scenario, document_id).update_one({"document_id": document_id}, {"$set": {"embedding": harm}})


async def _forget_embeddings(scenario: DriftScenario, document_id: str) -> None:
    await forget_embeddings(scenario.tenant, scenario.kb_of(document_id), of=document_id)


async def _miscount(scenario: DriftScenario, document_id: str) -> None:
    slot = kb_slots.row_id(kb_id=scenario.kb_of(document_id).kb_id, document_id=document_id)
    await scenario.tenant.database[kb_slots.NAME].update_one({"_id": slot}, {"$inc": {"documents": 3, "chunks": -2}})


def _chunks(scenario: DriftScenario, document_id: str) -> Any:
    return scenario.tenant.database[scenario.kb_of(document_id).vector_collection]


PLANTS: Final[tuple[tuple[str, Callable[[DriftScenario, str], Awaitable[None]]], ...]] = (
    ("missing", _delete_row_and_chunks),
    ("missing and orphan_vectors", _delete_row),
    ("stale", _lose_removal),
    ("stale_text", _lose_text),
    ("stale_snapshot", _lose_metadata),
    ("wrong_config", _set_config),
    ("incomplete", _delete_chunk),
    ("incomplete", _renumber_chunk),
    ("orphan_vectors", _copy_chunks),
    ("wrong_totals", _miscount),
    ("bad_vector", _harm_vector),
    ("missing_embedding", _forget_embeddings),
)
"""Kinds of drift with what plants them in a document."""


async def run(
    tenant: Tenant, indexer: Replica, lossy: Replica, search: DocumentSearch, *, documents: int, seed: int
) -> DriftReport:
    """Plant drift, make passes while work goes on, and check that everything is as the upstream knows it.

    Raises AssertionError if it is not.
    """
    scenario = DriftScenario(tenant, indexer, lossy, search, random.Random(seed))  # not for security
    report = DriftReport(documents)
    await scenario.fill(documents)
    await scenario.until_searchable()
    report.planted = await scenario.plant()
    spus = await scenario.count_spus_of_indexing()
    async with scenario.busy(report):
        for _ in range(MAX_PASSES):
            # Two reconcilers at once, as when one does not notice that it has lost its lease.
            found, _ = await run_all_or_cancel([scenario.make_pass(), scenario.make_pass()])
            report.passes.append(found)
            # A knowledge base gets a limited number of jobs: the next pass finds the rest.
            await indexer.work()
    await indexer.work()
    left = await scenario.make_pass()
    assert left == Counter(), f"{left} is left after {MAX_PASSES} passes"
    for tag, kb in scenario.kbs.items():
        await tenant.assert_holds(kb, scenario.expected(tag))
    await tenant.assert_settled()
    report.spus_charged = await scenario.count_spus_of_indexing() - spus
    return report
