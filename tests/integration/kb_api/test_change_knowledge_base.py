import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from kb_api import life_cycle
from kb_shared.mongo import (
    backfills,
    chunk_collections,
    chunk_indexes,
    index_jobs,
    kb_slots,
    knowledge_bases,
    outbox,
    rate_limits,
    search_indexes,
    tags,
)
from kb_shared.mongo.chunk_indexes import IndexState
from kb_shared.mongo.keys import KnowledgeBaseKey, TagKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.rate_limits import Bucket
from tests.integration.kb_api.organization import OrganizationClient
from tests.stored_jobs import jobs_of_kb
from tests.waiting import until


async def active(organization: OrganizationClient, **fields: Any) -> KnowledgeBase:
    kb = await organization.stored((await organization.create(**fields))["kb_id"])
    await organization.finish_scans()
    await knowledge_bases.set_status(organization.database, kb, Status.ACTIVE, only_from=Status.CREATING)
    return await organization.stored(kb.kb_id)


async def test_given_fields_change_and_absent_ones_stay(organization: OrganizationClient) -> None:
    before = await organization.create(description="kept", min_score=0.4)
    changes = {
        "name": "renamed",
        "min_score": None,
        "max_chunks_per_document": 7,
    }
    after = await organization.ok("PUT", f"/knowledge-bases/{before['kb_id']}", json=changes)
    unchanged = {name for name in before if before[name] == after[name]}
    assert set(before) - unchanged == {*changes, "updated_at"}
    assert {name: after[name] for name in changes} == changes
    assert await organization.ok("GET", f"/knowledge-bases/{before['kb_id']}") == after


async def test_nothing_given_changes_nothing(organization: OrganizationClient) -> None:
    before = await organization.create(filterable_metadata=["lang", "year"])
    for nothing in ({}, {"coalesce_neighbors": 0, "filterable_metadata": ["year", "lang"]}):
        assert await organization.ok("PUT", f"/knowledge-bases/{before['kb_id']}", json=nothing) == before


async def test_limits_are_replaced_as_a_whole(organization: OrganizationClient) -> None:
    created = await organization.create(rate_limits={"requests_per_minute": 60, "tokens_per_minute": 9_000})
    path = f"/knowledge-bases/{created['kb_id']}"
    assert created["rate_limits"] == {"requests_per_minute": 60, "tokens_per_minute": 9_000}
    changed = await organization.ok("PUT", path, json={"rate_limits": {"tokens_per_minute": 1_000_000}})
    assert changed["rate_limits"] == {"requests_per_minute": None, "tokens_per_minute": 1_000_000}
    assert (await organization.stored(created["kb_id"])).rate_limits == {"tokens_per_minute": 1_000_000}
    renamed = await organization.ok("PUT", path, json={"name": "n"})
    assert renamed["rate_limits"] == changed["rate_limits"]
    assert (await organization.ok("PUT", path, json={"rate_limits": {}}))["rate_limits"] == {
        "requests_per_minute": None,
        "tokens_per_minute": None,
    }


async def test_new_limits_hold_for_what_waits_for_the_old_ones(organization: OrganizationClient) -> None:
    database = organization.database
    created = await organization.create(rate_limits={"tokens_per_minute": 1})
    other = await organization.create(rate_limits={"tokens_per_minute": 1})
    for kb in (created, other):
        job = await organization.running_job(kb["kb_id"], "d")
        await index_jobs.postpone(
            database, job, delay=timedelta(hours=1), error_type="rate_limited", error_message="m", count_attempt=False
        )
        bucket = Bucket.of_knowledge_base(
            KnowledgeBaseKey(organization.organization_id, kb["kb_id"]), {"tokens_per_minute": 1}
        )
        await rate_limits.reserve(database, bucket, requests=0, tokens=100, longest_wait_s=10_000)

    changed = {"rate_limits": {"tokens_per_minute": 1_000_000}}
    await organization.ok("PUT", f"/knowledge-bases/{created['kb_id']}", json=changed)

    due = {job.kb_id async for job in _due(organization)}
    assert due == {created["kb_id"]}
    of_kbs = {"_id": {"$regex": f"^{organization.organization_id}/kb/"}}
    owing = await database[rate_limits.NAME].distinct("_id", of_kbs)
    assert owing == [f"{organization.organization_id}/kb/{other['kb_id']}"]


async def _due(organization: OrganizationClient) -> AsyncIterator[index_jobs.IndexJob]:
    for row in await organization.database[knowledge_bases.NAME].find().to_list():
        async for job in jobs_of_kb(organization.database, KnowledgeBaseKey(organization.organization_id, row["_id"])):
            if job.postponed_until is None:
                yield job


async def test_a_tag_that_was_deleted_is_shown_as_dead_until_it_is_named_again(
    organization: OrganizationClient,
) -> None:
    await organization.tag("alive", "dead")
    kb = await organization.create(tag_ids=["alive", "dead"])
    assert kb["dead_tag_ids"] == []
    path = f"/knowledge-bases/{kb['kb_id']}"

    await tags.set_state(
        organization.database, TagKey(organization.organization_id, "dead"), revision=2, deleted=True, name=None
    )
    shown = await organization.ok("GET", path)
    assert (shown["tag_ids"], shown["dead_tag_ids"]) == (["alive", "dead"], ["dead"])
    (listed,) = (await organization.ok("GET", "/knowledge-bases"))["knowledge_bases"]
    assert listed["dead_tag_ids"] == ["dead"]

    await organization.ok("POST", "/tags", json={"tag_id": "dead", "name": "risen"})
    assert (await organization.ok("GET", path))["dead_tag_ids"] == []


async def test_a_new_filterable_key_waits_for_both_indexes_and_the_others_go_on(
    organization: OrganizationClient,
) -> None:
    kb = await active(organization, filterable_metadata=["year"])
    await chunk_collection(organization, kb)
    path = f"/knowledge-bases/{kb.kb_id}"
    changed = await organization.ok("PUT", path, json={"filterable_metadata": ["year", "lang", "lang"]})
    assert (changed["filterable_metadata"], changed["status"]) == (["year", "lang"], "active")
    assert (await organization.stored(kb.kb_id)).filters_building == ("lang",)
    # What another says meanwhile about the same keys takes back nothing.
    await organization.ok("PUT", path, json={"filterable_metadata": ["lang", "year"], "name": "renamed"})
    await until_built(organization, kb.kb_id)
    built = await organization.stored(kb.kb_id)
    collection = organization.database[built.vector_collection]
    assert await chunk_indexes.read_state(collection, built) is IndexState.READY
    assert {index.name for index in await search_indexes.list_indexes(collection)} == set(chunk_indexes.NAMES)


async def test_a_key_that_was_taken_back_and_given_again_waits_again(organization: OrganizationClient) -> None:
    kb = await active(organization, filterable_metadata=["year", "lang"])
    await chunk_collection(organization, kb)
    path = f"/knowledge-bases/{kb.kb_id}"
    await organization.ok("PUT", path, json={"filterable_metadata": ["year"]})
    assert (await organization.stored(kb.kb_id)).filters_building == ()
    await organization.ok("PUT", path, json={"filterable_metadata": ["year", "lang"]})
    assert (await organization.stored(kb.kb_id)).filters_building == ("lang",)
    await until_built(organization, kb.kb_id)


async def test_keys_that_changed_while_they_were_built_are_not_taken_for_built(
    organization: OrganizationClient,
) -> None:
    kb = await active(organization)
    path = f"/knowledge-bases/{kb.kb_id}"
    await organization.ok("PUT", path, json={"filterable_metadata": ["year"]})
    seen = await organization.stored(kb.kb_id)
    await organization.ok("PUT", path, json={"filterable_metadata": ["year", "lang"]})
    assert not await knowledge_bases.set_indexes_built(organization.database, seen)
    assert (await organization.stored(kb.kb_id)).filters_building == ("year", "lang")


async def chunk_collection(organization: OrganizationClient, kb: KnowledgeBase) -> None:
    await chunk_collections.create(organization.database, kb)

    async def ready() -> bool:
        return await chunk_indexes.read_state(organization.database[kb.vector_collection], kb) is IndexState.READY

    await until(ready)


async def until_built(organization: OrganizationClient, kb_id: str) -> None:
    """Take the steps that a life cycle takes, which finds the KB by itself."""

    async def built() -> bool:
        found = [kb for kb in await knowledge_bases.find_in_transition(organization.database) if kb.kb_id == kb_id]
        for kb in found:
            step = life_cycle.step_of(kb)
            assert step is not None
            await step(organization.database, kb)
        return not found

    await until(built)


@pytest.mark.parametrize(
    "field",
    [
        {"chunker_type": "word"},
        {"chunk_size": 100},
        {"chunk_overlap": 1},
        {"embedding_model": "hash-8"},
        {"text_normalization": 1},
    ],
)
async def test_w3_an_immutable_field_is_named_with_what_to_do_instead(
    organization: OrganizationClient, field: dict[str, Any]
) -> None:
    kb_id = (await organization.create())["kb_id"]
    response = await organization.request("PUT", f"/knowledge-bases/{kb_id}", json={"name": "n", **field})
    problem = response.json()
    assert (response.status_code, problem["type"]) == (422, "immutable-field")
    assert [found["field"] for found in problem["fields"]] == list(field)
    assert "Create another knowledge base" in problem["detail"]


@pytest.mark.parametrize(
    "body",
    [{"name": None}, {"name": ""}, {"tag_ids": None}, {"min_score": 2}, {"status": "active"}, {"kb_id": "x"}, []],
)
async def test_a_change_that_makes_no_sense_is_refused(organization: OrganizationClient, body: Any) -> None:
    kb_id = (await organization.create())["kb_id"]
    assert await organization.refused("PUT", f"/knowledge-bases/{kb_id}", json=body) == (422, "validation-error")


async def test_other_tags_fence_off_writes_with_the_old_ones_and_start_a_scan(organization: OrganizationClient) -> None:
    await organization.tag("old", "new")
    kb = await active(organization, tag_ids=["old"])
    after = await organization.ok("PUT", f"/knowledge-bases/{kb.kb_id}", json={"tag_ids": ["new"]})
    assert (after["status"], after["tag_ids"]) == ("indexing", ["new"])
    stored = await organization.stored(kb.kb_id)
    assert stored.tags_version == kb.tags_version + 1
    slots = await organization.database[kb_slots.NAME].find({"kb_id": kb.kb_id}).to_list()
    assert {slot["tags_version"] for slot in slots} == {stored.tags_version}
    scans = await organization.database[backfills.NAME].find({"kb_id": kb.kb_id, "state": "running"}).to_list()
    assert len(scans) == 1
    events = await organization.database[outbox.NAME].find({"ordering": kb.kb_id}).sort("seq").to_list()
    assert [event["seq"] for event in events] == [1, 2]


@pytest.mark.parametrize(("limit", "status", "scans"), [(11, "indexing", 1), (10, "active", 0), (9, "active", 0)])
async def test_documents_that_did_not_fit_are_looked_at_again_when_more_chunks_are_allowed(
    organization: OrganizationClient, limit: int, status: str, scans: int
) -> None:
    kb = await active(organization, max_chunks_per_document=10)
    after = await organization.ok("PUT", f"/knowledge-bases/{kb.kb_id}", json={"max_chunks_per_document": limit})
    assert (after["status"], after["max_chunks_per_document"]) == (status, limit)
    running = {"kb_id": kb.kb_id, "state": "running"}
    assert await organization.database[backfills.NAME].count_documents(running) == scans
    assert (await organization.stored(kb.kb_id)).tags_version == kb.tags_version


async def test_no_limit_of_chunks_is_the_deployments_limit_and_more_than_a_lower_one(
    organization: OrganizationClient,
) -> None:
    kb = await active(organization, max_chunks_per_document=10)
    path = f"/knowledge-bases/{kb.kb_id}"
    after = await organization.ok("PUT", path, json={"max_chunks_per_document": 0})
    assert (after["status"], after["max_chunks_per_document"]) == ("indexing", 2000)
    assert await organization.ok("PUT", path, json={"max_chunks_per_document": 0}) == after, "it is so already"


async def test_the_same_tags_in_another_order_are_no_change(organization: OrganizationClient) -> None:
    await organization.tag("a", "b")
    kb = await active(organization, tag_ids=["a", "b"])
    after = await organization.ok("PUT", f"/knowledge-bases/{kb.kb_id}", json={"tag_ids": ["b", "a"]})
    assert (after["status"], after["tag_ids"]) == ("active", ["a", "b"])


async def test_a_knowledge_base_that_is_being_built_goes_on_being_built_with_the_new_tags(
    organization: OrganizationClient,
) -> None:
    await organization.tag("t")
    kb_id = (await organization.create())["kb_id"]
    assert (await organization.ok("PUT", f"/knowledge-bases/{kb_id}", json={"tag_ids": ["t"]}))["status"] == "creating"


async def test_unknown_tags_change_nothing(organization: OrganizationClient) -> None:
    kb = await active(organization)
    assert await organization.refused("PUT", f"/knowledge-bases/{kb.kb_id}", json={"tag_ids": ["no-such-tag"]}) == (
        422,
        "unknown-tag",
    )
    assert await organization.stored(kb.kb_id) == kb


async def test_w1_one_of_two_concurrent_retags_wins_and_the_other_is_refused(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await organization.tag("a", "b")
    kb = await active(organization)
    both_read = asyncio.Barrier(2)
    get = knowledge_bases.get
    meetings = 0

    async def get_and_meet(*args: Any) -> KnowledgeBase:
        nonlocal meetings
        found = await get(*args)
        if meetings < 2:
            meetings += 1
            await both_read.wait()
        return found

    monkeypatch.setattr(knowledge_bases, "get", get_and_meet)
    answers = await asyncio.gather(
        *(
            organization.request("PUT", f"/knowledge-bases/{kb.kb_id}", json={"tag_ids": [tag_id]})
            for tag_id in ("a", "b")
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    [winner] = [answer.json() for answer in answers if answer.status_code == 200]
    stored = await organization.stored(kb.kb_id)
    assert (list(stored.tag_ids), stored.tags_version) == (winner["tag_ids"], kb.tags_version + 1)
