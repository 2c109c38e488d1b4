"""A KB is deleted and retagged while every one of its slots is being written to."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from kb_api import life_cycle
from kb_indexer.swap import StaleDecision, replace_document
from kb_shared import failpoints
from kb_shared.errors import TransientError
from kb_shared.mongo import document_index, documents, kb_slots, knowledge_bases
from kb_shared.mongo.database import mongo_errors
from kb_shared.mongo.keys import DocumentKey, KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from tests.integration.kb_api.organization import FenceClosed, OrganizationClient
from tests.waiting import DEADLINE_S, until

WORKERS = 16
BEFORE_DECIDING_AGAIN_S = 0.05
HELD_FOR_S = 0.03
"""Each swap keeps its slot for so long."""


@pytest.fixture(autouse=True)
def _block_swaps_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block swaps for longer: a busy machine may take more time for sixteen swaps than a block lasts."""
    monkeypatch.setattr(kb_slots, "BLOCKED_FOR", timedelta(minutes=1))


@dataclass
class Swaps:
    """Committed ones, by the version of the tags they were decided for."""

    committed: Counter[tuple[str, int]] = field(default_factory=Counter)

    async def each_document(self, tags_version: int) -> None:
        """Wait until each document was swapped for these tags."""
        await until(lambda: sum(version == tags_version for _, version in self.committed) >= WORKERS)


async def _live(organization: OrganizationClient, kb_id: str) -> KnowledgeBase | None:
    kb = await knowledge_bases.find(organization.database, KnowledgeBaseKey(organization.organization_id, kb_id))
    return None if kb is None or kb.status is Status.DELETING else kb


async def _keep_swapping(organization: OrganizationClient, kb_id: str, document_id: str, swaps: Swaps) -> None:
    """As an indexer does whose document changes all the time, until the KB is gone."""
    await organization.project(document_id, name="Name", tag_ids=("a",))
    document = await documents.find(organization.database, DocumentKey(organization.organization_id, document_id))
    assert document is not None
    job = await organization.running_job(kb_id, document_id)
    while (kb := await _live(organization, kb_id)) is not None:
        try:
            with mongo_errors():
                await replace_document(organization.database, job, kb, document=document, chunks=[])
        except (StaleDecision, TransientError):
            await asyncio.sleep(BEFORE_DECIDING_AGAIN_S)
        else:
            swaps.committed[document_id, kb.tags_version] += 1


@asynccontextmanager
async def busy(organization: OrganizationClient, kb_id: str) -> AsyncIterator[Swaps]:
    swaps = Swaps()

    async def linger() -> None:
        await asyncio.sleep(HELD_FOR_S)

    async with failpoints.during("swap.after_slot", linger), asyncio.TaskGroup() as workers:
        running = [workers.create_task(_keep_swapping(organization, kb_id, f"d{n}", swaps)) for n in range(WORKERS)]
        await swaps.each_document(tags_version=1)
        yield swaps
        for worker in running:
            worker.cancel()


async def test_a_knowledge_base_is_retagged_while_its_documents_are_indexed(organization: OrganizationClient) -> None:
    await organization.tag("a", "b")
    kb_id = (await organization.create(tag_ids=["a"]))["kb_id"]
    path = f"/knowledge-bases/{kb_id}"
    async with busy(organization, kb_id) as swaps, asyncio.timeout(DEADLINE_S):
        for version, tag_ids in enumerate((["a", "b"], ["a"], ["b", "a"]), start=2):
            assert (await organization.ok("PUT", path, json={"tag_ids": tag_ids}))["tag_ids"] == tag_ids
            await swaps.each_document(tags_version=version)
    slots = await organization.database[kb_slots.NAME].find({"kb_id": kb_id}).to_list()
    assert {(slot["state"], slot["tags_version"], slot["closed_until"]) for slot in slots} == {("live", 4, None)}
    assert (await organization.ok("GET", path))["document_count"] == WORKERS


async def test_a_knowledge_base_is_deleted_while_its_documents_are_indexed(organization: OrganizationClient) -> None:
    await organization.tag("a")
    kb_id = (await organization.create(tag_ids=["a"]))["kb_id"]
    async with busy(organization, kb_id), asyncio.timeout(DEADLINE_S):
        await organization.ok("DELETE", f"/knowledge-bases/{kb_id}")
        await life_cycle.STEPS[Status.DELETING](organization.database, await organization.stored(kb_id))
    for collection in (kb_slots.NAME, document_index.NAME):
        assert await organization.database[collection].count_documents({"kb_id": kb_id}) == 0


async def test_a_block_on_swaps_ends_by_itself_when_its_process_is_gone(organization: OrganizationClient) -> None:
    kb_id = (await organization.create())["kb_id"]
    await kb_slots.block_swaps(organization.database, KnowledgeBaseKey(organization.organization_id, kb_id))
    slots = organization.database[kb_slots.NAME]
    assert await slots.count_documents({"kb_id": kb_id, "$expr": {"$gt": ["$closed_until", "$$NOW"]}}) == 16
    with pytest.raises(FenceClosed):
        await organization.index(kb_id, "d", name="Name", chunks=1)
    # The time passes.
    await slots.update_many({"kb_id": kb_id}, [{"$set": {"closed_until": {"$subtract": ["$$NOW", 1]}}}])
    await organization.index(kb_id, "d", name="Name", chunks=1)
