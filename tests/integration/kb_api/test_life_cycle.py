import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, get_args

import pytest
from pymongo import AsyncMongoClient

from kb_api import life_cycle
from kb_api.life_cycle import LifeCycle
from kb_contracts.api.knowledge_bases import TextAnalyzer
from kb_contracts.cloudevents import decode
from kb_contracts.outcomes import KB_EVENTS, KnowledgeBaseDeleted
from kb_local.mongod import Mongod
from kb_local.search_node.analyzers import ANALYZERS
from kb_shared.concurrency.work_signal import PollPause
from kb_shared.mongo import (
    backfills,
    chunk_collections,
    chunk_indexes,
    document_index,
    index_jobs,
    kb_slots,
    knowledge_bases,
    leases,
    outbox,
    text_analyzers,
)
from kb_shared.mongo.chunk_indexes import IndexState
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from tests.conftest import RunningMongo
from tests.integration.kb_api.organization import FenceClosed, OrganizationClient
from tests.waiting import until


async def until_gone(database: Database, kb_id: str) -> None:
    """Wait until the life cycle is done with it, whose lease is the last to go."""
    for name, row_id in ((knowledge_bases.NAME, kb_id), (leases.NAME, f"kb/{kb_id}")):

        async def is_gone(name: str = name, row_id: str = row_id) -> bool:
            return await database[name].find_one({"_id": row_id}) is None

        await until(is_gone, what=f"the end of its row in {name}")


async def step_until(organization: OrganizationClient, kb_id: str, status: Status) -> KnowledgeBase:
    """Take the steps one by one, as a life cycle does that is killed after each."""

    async def stepped() -> bool:
        kb = await organization.stored(kb_id)
        if kb.status is status:
            return True
        await life_cycle.STEPS[kb.status](organization.database, kb)
        return False

    await until(stepped, what=f"the status {status}")
    return await organization.stored(kb_id)


@pytest.mark.usefixtures("living")
async def test_a_knowledge_base_becomes_active_once_its_index_is_queryable_and_its_documents_are_in(
    organization: OrganizationClient,
) -> None:
    kb_id = (await organization.create())["kb_id"]
    await organization.until_status(kb_id, "indexing")
    stats = await organization.ok("GET", f"/knowledge-bases/{kb_id}/stats")
    assert sorted(stats["search_indexes"], key=lambda index: str(index["name"])) == [
        {"name": name, "status": "READY", "queryable": True} for name in sorted(chunk_indexes.NAMES)
    ]
    await organization.finish_scans()
    await organization.until_status(kb_id, "active")


async def test_a_knowledge_base_waits_and_says_why_while_mongodb_has_no_search(
    organization: OrganizationClient, mongod: Mongod | RunningMongo
) -> None:
    if isinstance(mongod, RunningMongo):
        pytest.skip("a deployment with search of its own has no plain mongod to ask")
    kb_id = (await organization.create())["kb_id"]
    async with AsyncMongoClient[dict[str, Any]](mongod.uri, tz_aware=True, w="majority") as client:
        without_search = client[organization.database.name]
        await life_cycle_until(without_search, lambda: says(organization, kb_id, life_cycle.SEARCH_MISSING))
        assert (await organization.stored(kb_id)).status is Status.CREATING
    await life_cycle_until(organization.database, lambda: says(organization, kb_id, None))
    await step_until(organization, kb_id, Status.INDEXING)


async def test_a_knowledge_base_can_be_deleted_where_mongodb_has_no_search(
    organization: OrganizationClient, mongod: Mongod | RunningMongo
) -> None:
    if isinstance(mongod, RunningMongo):
        pytest.skip("a deployment with search of its own has no plain mongod to ask")
    kb_id = (await organization.create())["kb_id"]
    await organization.ok("DELETE", f"/knowledge-bases/{kb_id}")
    async with AsyncMongoClient[dict[str, Any]](mongod.uri, tz_aware=True, w="majority") as client:
        stop = asyncio.Event()
        living = asyncio.create_task(LifeCycle(client[organization.database.name], interval_s=0.05).run(stop))
        await until_gone(organization.database, kb_id)
        stop.set()
        await living


async def says(organization: OrganizationClient, kb_id: str, reason: str | None) -> bool:
    kb = await organization.ok("GET", f"/knowledge-bases/{kb_id}")
    return bool(kb["status_reason"] == reason)


async def life_cycle_until(database: Database, condition: Callable[[], Awaitable[bool]]) -> None:
    stop = asyncio.Event()
    living = asyncio.create_task(LifeCycle(database, interval_s=0.05).run(stop))
    await until(condition)
    stop.set()
    await living


@pytest.mark.usefixtures("living")
async def test_filterable_metadata_has_filter_paths_of_its_own_in_the_index(organization: OrganizationClient) -> None:
    kb_id = (await organization.create(filterable_metadata=["year"]))["kb_id"]
    await organization.until_status(kb_id, "indexing")
    collection = organization.database[(await organization.stored(kb_id)).vector_collection]
    [index] = await (await collection.list_search_indexes(chunk_indexes.VECTOR_INDEX)).to_list()
    paths = [field["path"] for field in index["latestDefinition"]["fields"] if field["type"] == "filter"]
    assert paths == [*chunk_indexes.FILTER_PATHS, "metadata_snapshot.year"]
    [index] = await (await collection.list_search_indexes(chunk_indexes.TEXT_INDEX)).to_list()
    assert list(index["latestDefinition"]["mappings"]["fields"]["metadata_snapshot"]["fields"]) == ["year"]


@pytest.mark.usefixtures("living")
async def test_the_text_index_has_the_analyzer_that_was_asked_for(organization: OrganizationClient) -> None:
    kb_id = (await organization.create(text_analyzer="lucene.german"))["kb_id"]
    assert (await organization.until_status(kb_id, "indexing"))["text_analyzer"] == "lucene.german"
    collection = organization.database[(await organization.stored(kb_id)).vector_collection]
    [index] = await (await collection.list_search_indexes(chunk_indexes.TEXT_INDEX)).to_list()
    analyzers = index["latestDefinition"]["analyzers"]
    assert analyzers == [text_analyzers.folding("lucene.german")]
    assert index["latestDefinition"]["analyzer"] == analyzers[0]["name"]


def test_every_analyzer_that_may_be_asked_for_is_one_of_the_local_stack_too() -> None:
    assert set(get_args(TextAnalyzer)) <= ANALYZERS.keys()


async def test_it_is_not_active_while_a_scan_runs_or_a_scanned_document_is_open(
    organization: OrganizationClient,
) -> None:
    kb_id = (await organization.create())["kb_id"]
    indexing = await step_until(organization, kb_id, Status.INDEXING)
    step = life_cycle.STEPS[Status.INDEXING]
    assert not await step(organization.database, indexing)
    job = await organization.running_job(kb_id, "scanned")
    await organization.finish_scans()
    assert not await step(organization.database, indexing)
    assert await index_jobs.finish(organization.database, job)
    assert await step(organization.database, indexing)
    assert (await organization.stored(kb_id)).status is Status.ACTIVE


async def test_documents_that_failed_or_wait_for_their_text_do_not_keep_it_from_becoming_active(
    organization: OrganizationClient,
) -> None:
    kb_id = (await organization.create())["kb_id"]
    indexing = await step_until(organization, kb_id, Status.INDEXING)
    await organization.failed_job(kb_id, "failed", error_type="document_unfit", error_message="too long")
    await organization.waiting_job(kb_id, "waiting")
    await organization.finish_scans()
    assert await life_cycle.STEPS[Status.INDEXING](organization.database, indexing)


async def test_jobs_of_events_after_the_scan_do_not_keep_it_from_becoming_active(
    organization: OrganizationClient,
) -> None:
    kb_id = (await organization.create())["kb_id"]
    indexing = await step_until(organization, kb_id, Status.INDEXING)
    await organization.finish_scans()
    await organization.open_job(kb_id, "new")
    # A quick machine requests it in the millisecond in which the scan ended.
    later = {"requested_at": {"$add": ["$requested_at", 1]}}
    await organization.database[index_jobs.NAME].update_one({"kb_id": kb_id}, [{"$set": later}])
    assert await life_cycle.STEPS[Status.INDEXING](organization.database, indexing)


async def test_a_scan_that_starts_in_the_middle_of_the_decision_keeps_it_indexing(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await organization.tag("t")
    kb_id = (await organization.create())["kb_id"]
    indexing = await step_until(organization, kb_id, Status.INDEXING)
    await organization.finish_scans()
    ask = index_jobs.is_any_open
    retagged = False

    async def retag_then_ask(*args: Any, **kwargs: Any) -> bool:
        nonlocal retagged
        if not retagged:
            retagged = True
            await organization.ok("PUT", f"/knowledge-bases/{kb_id}", json={"tag_ids": ["t"]})
        return await ask(*args, **kwargs)

    monkeypatch.setattr(index_jobs, "is_any_open", retag_then_ask)
    assert not await life_cycle.STEPS[Status.INDEXING](organization.database, indexing)
    assert (await organization.stored(kb_id)).status is Status.INDEXING


async def test_each_step_can_be_repeated_after_a_crash(organization: OrganizationClient) -> None:
    kb_id = (await organization.create())["kb_id"]
    creating = await organization.stored(kb_id)
    # Killed when the collection and its indexes were there and the row did not say so.
    await chunk_collections.create(organization.database, creating)
    await step_until(organization, kb_id, Status.INDEXING)
    await life_cycle.STEPS[Status.CREATING](organization.database, creating)
    assert (await organization.stored(kb_id)).status is Status.INDEXING


@pytest.mark.parametrize("name", chunk_indexes.NAMES)
async def test_a_search_index_that_vanished_while_it_was_built_is_built_again(
    organization: OrganizationClient, name: str
) -> None:
    kb_id = (await organization.create())["kb_id"]
    building = await step_until(organization, kb_id, Status.BUILDING)
    await organization.database[building.vector_collection].drop_search_index(name)
    await step_until(organization, kb_id, Status.CREATING)
    await step_until(organization, kb_id, Status.INDEXING)


async def test_an_index_that_cannot_be_built_is_an_error_with_a_reason(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failed(_: object, __: KnowledgeBase) -> IndexState:
        return IndexState.FAILED

    kb_id = (await organization.create())["kb_id"]
    building = await step_until(organization, kb_id, Status.BUILDING)
    monkeypatch.setattr(chunk_indexes, "read_state", failed)
    await life_cycle.STEPS[Status.BUILDING](organization.database, building)
    kb = await organization.ok("GET", f"/knowledge-bases/{kb_id}")
    assert (kb["status"], kb["status_reason"]) == ("error", life_cycle.INDEX_FAILED)


async def test_an_error_is_looked_at_once_a_minute_and_ends_when_the_index_is_fixed(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failed(_: object, __: KnowledgeBase) -> IndexState:
        return IndexState.FAILED

    kb_id, other_kb_id = [(await organization.create())["kb_id"] for _ in range(2)]
    await step_until(organization, kb_id, Status.BUILDING)
    stop = asyncio.Event()
    with monkeypatch.context() as patched:
        patched.setattr(chunk_indexes, "read_state", failed)
        await step_until(organization, kb_id, Status.ERROR)
        running = asyncio.create_task(LifeCycle(organization.database, interval_s=0.01).run(stop))
        await organization.until_status(other_kb_id, "error")
        stop.set()
        await running
        assert await in_transition(organization) == set()
    # The time passes.
    mine = {"organization_id": organization.organization_id}
    await organization.database[knowledge_bases.NAME].update_many(
        mine, [{"$set": {"look_again_at": {"$subtract": ["$look_again_at", 60_000]}}}]
    )
    assert await in_transition(organization) == {kb_id, other_kb_id}
    for each in (kb_id, other_kb_id):
        fixed = await step_until(organization, each, Status.INDEXING)
        assert fixed.status_reason is None


async def in_transition(organization: OrganizationClient) -> set[str]:
    kbs = await knowledge_bases.find_in_transition(organization.database)
    return {kb.kb_id for kb in kbs if kb.organization_id == organization.organization_id}


async def test_a_knowledge_base_is_left_alone_while_another_replica_has_its_lease(
    organization: OrganizationClient,
) -> None:
    kb_id = (await organization.create())["kb_id"]
    lease = f"kb/{kb_id}"
    assert await leases.acquire(organization.database, lease, owner="other", length=timedelta(hours=1))
    other_kb_id = (await organization.create())["kb_id"]
    stop = asyncio.Event()
    running = asyncio.create_task(LifeCycle(organization.database, interval_s=0.05).run(stop))
    await organization.until_status(other_kb_id, "indexing")
    assert (await organization.stored(kb_id)).status is Status.CREATING
    await leases.release(organization.database, lease, owner="other")
    await organization.until_status(kb_id, "indexing")
    stop.set()
    await running


async def test_c10_a_new_knowledge_base_is_built_at_once_and_not_at_the_next_poll(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere everything waited for the next poll."""
    woken = organization.api.life_cycle
    monkeypatch.setattr(woken, "_pause", PollPause(woken.signal, shortest_s=3_600.0))
    stop = asyncio.Event()
    running = asyncio.create_task(woken.run(stop))
    # The second one is created when the first round has begun, and so has read what there is to do.
    for _ in range(2):
        kb_id = (await organization.create())["kb_id"]

        async def is_begun(kb_id: str = kb_id) -> bool:
            return (await organization.stored(kb_id)).status is not Status.CREATING

        await until(is_begun)
    stop.set()
    await running


async def rows_of(organization: OrganizationClient, kb_id: str) -> dict[str, int]:
    database = organization.database
    names = (document_index.NAME, index_jobs.NAME, backfills.NAME, kb_slots.NAME)
    counts = {name: await database[name].count_documents({"kb_id": kb_id}) for name in names}
    collection = knowledge_bases.build_collection_name(kb_id)
    counts["collections"] = len(await database.list_collection_names(filter={"name": collection}))
    return counts


async def everything_of(organization: OrganizationClient, kb_id: str) -> dict[str, int]:
    """Its rows, and the lease that comes and goes with each round of the life cycle."""
    held = await organization.database[leases.NAME].count_documents({"_id": f"kb/{kb_id}"})
    return await rows_of(organization, kb_id) | {"leases": held}


@pytest.mark.usefixtures("living")
async def test_deleting_leaves_nothing_of_it_and_everything_of_the_others(organization: OrganizationClient) -> None:
    kb_id, kept_id = [(await organization.create())["kb_id"] for _ in range(2)]
    for each in (kb_id, kept_id):
        await organization.until_status(each, "indexing")
        await organization.index(each, "d1", name="One", chunks=3)
        await organization.open_job(each, "d2")
    before = await rows_of(organization, kept_id)
    deleted = await organization.ok("DELETE", f"/knowledge-bases/{kb_id}")
    assert deleted == {"message": "Knowledge base deleted successfully"}
    await until_gone(organization.database, kb_id)
    assert set((await everything_of(organization, kb_id)).values()) == {0}
    assert await rows_of(organization, kept_id) == before
    messages = await organization.database[outbox.NAME].find({"ordering": kb_id}).sort("seq", -1).to_list()
    _, event = decode(messages[0]["value"], KB_EVENTS)
    assert event == KnowledgeBaseDeleted(organization_id=organization.organization_id, kb_id=kb_id)


async def test_a_deleted_knowledge_base_is_not_found_and_fences_off_writes_at_once(
    organization: OrganizationClient,
) -> None:
    kb_id = (await organization.create())["kb_id"]
    path = f"/knowledge-bases/{kb_id}"
    await organization.ok("DELETE", path)
    for method, body in (("GET", None), ("PUT", {"name": "n"}), ("DELETE", None)):
        assert await organization.refused(method, path, json=body) == (404, "not-found")
    assert (await organization.ok("GET", "/knowledge-bases"))["total_count"] == 0
    with pytest.raises(FenceClosed):
        await organization.index(kb_id, "late", name="Late", chunks=1)


async def test_a_deletion_goes_on_wherever_it_was_interrupted(organization: OrganizationClient) -> None:
    kb_id = (await organization.create())["kb_id"]
    await step_until(organization, kb_id, Status.INDEXING)
    await organization.ok("DELETE", f"/knowledge-bases/{kb_id}")
    deleting = await organization.stored(kb_id)
    await chunk_collections.drop(organization.database, deleting.vector_collection)
    await life_cycle.STEPS[Status.DELETING](organization.database, deleting)
    assert set((await everything_of(organization, kb_id)).values()) == {0}


async def test_a_knowledge_base_is_deleted_before_it_was_built(organization: OrganizationClient) -> None:
    kb_id = (await organization.create())["kb_id"]
    await organization.ok("DELETE", f"/knowledge-bases/{kb_id}")
    await life_cycle.STEPS[Status.DELETING](organization.database, await organization.stored(kb_id))
    assert await organization.database[knowledge_bases.NAME].find_one({"_id": kb_id}) is None


@pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "deleting"])
async def test_a_stalled_replica_brings_no_collection_back(organization: OrganizationClient, *, deleted: bool) -> None:
    kb_id = (await organization.create())["kb_id"]
    creating = await organization.stored(kb_id)
    await organization.ok("DELETE", f"/knowledge-bases/{kb_id}")
    if deleted:
        await life_cycle.STEPS[Status.DELETING](organization.database, await organization.stored(kb_id))
    assert not await life_cycle.STEPS[Status.CREATING](organization.database, creating)
    assert (await everything_of(organization, kb_id))["collections"] == 0


async def test_a_step_that_fails_for_one_does_not_stop_the_others(
    organization: OrganizationClient,
    new_organization: Callable[..., Awaitable[OrganizationClient]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create = chunk_collections.create
    unlucky = (await organization.create())["kb_id"]
    other = await new_organization()
    lucky = (await other.create())["kb_id"]

    async def create_all_but_unlucky(database: Database, kb: KnowledgeBase) -> None:
        if kb.kb_id == unlucky:
            await database.command("noSuchCommand")
        await create(database, kb)

    monkeypatch.setattr(chunk_collections, "create", create_all_but_unlucky)
    stop = asyncio.Event()
    running = asyncio.create_task(LifeCycle(organization.database, interval_s=0.05).run(stop))
    await other.until_status(lucky, "indexing")
    assert (await organization.stored(unlucky)).status is Status.CREATING
    stop.set()
    await running
