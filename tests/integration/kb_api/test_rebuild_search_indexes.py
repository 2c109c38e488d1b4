"""A rebuild of search indexes is one request, which the life cycle carries out from wherever it was interrupted."""

from typing import Any

import pytest

from kb_api import life_cycle
from kb_shared.mongo import chunk_collections, chunk_indexes, knowledge_bases
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, IndexState
from kb_shared.mongo.knowledge_bases import IndexRebuild, KnowledgeBase, Status
from kb_shared.mongo.search_indexes import ListedIndex
from tests.integration.kb_api.organization import OrganizationClient
from tests.waiting import until


async def built(organization: OrganizationClient, status: Status = Status.ACTIVE) -> KnowledgeBase:
    """Create a KB with its search indexes."""
    kb = await organization.stored((await organization.create())["kb_id"])
    await organization.finish_scans()
    await chunk_collections.create(organization.database, kb)

    async def is_ready() -> bool:
        return await chunk_indexes.read_state(organization.database[kb.vector_collection], kb) is IndexState.READY

    await until(is_ready)
    await knowledge_bases.set_status(organization.database, kb, status, only_from=Status.CREATING)
    return await organization.stored(kb.kb_id)


async def request_rebuild(organization: OrganizationClient, kb: KnowledgeBase) -> dict[str, Any]:
    return await organization.ok("POST", f"/knowledge-bases/{kb.kb_id}/search-indexes/rebuild")


async def step_until(organization: OrganizationClient, kb_id: str, status: Status) -> KnowledgeBase:
    """Take the steps that a life cycle finds, as one that is killed after each, until nothing of a rebuild is left."""

    async def is_done() -> bool:
        for kb in await knowledge_bases.find_in_transition(organization.database):
            if kb.kb_id == kb_id and (step := life_cycle.step_of(kb)):
                await step(organization.database, kb)
        kb = await organization.stored(kb_id)
        return kb.status is status and (kb.index_rebuild is None or status is Status.ERROR)

    await until(is_done, what=f"the status {status}")
    return await organization.stored(kb_id)


async def versions(organization: OrganizationClient, kb: KnowledgeBase) -> dict[str, tuple[str, int]]:
    """Return the id of each search index and how often its definition changed."""
    rows = await (await organization.database[kb.vector_collection].list_search_indexes()).to_list()
    return {row["name"]: (row["id"], row["latestDefinitionVersion"]["version"]) for row in rows}


class FailingTextIndex:
    """Lets the text index fail until it is dropped; no index of the search node fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, again: bool = False) -> None:
        self.drops = 0
        self._again = again
        self._state, self._drop_failed = chunk_indexes._state, chunk_indexes.drop_failed
        monkeypatch.setattr(chunk_indexes, "_state", self._fail)
        monkeypatch.setattr(chunk_indexes, "drop_failed", self._drop)

    def _fail(self, index: ListedIndex, kb: KnowledgeBase) -> IndexState:
        fails = index.name == TEXT_INDEX and (not self.drops or self._again)
        return IndexState.FAILED if fails else self._state(index, kb)

    async def _drop(self, *args: Any) -> None:
        await self._drop_failed(*args)
        self.drops += 1


async def test_a_second_request_changes_nothing_until_the_first_one_is_carried_out(
    organization: OrganizationClient,
) -> None:
    kb = await built(organization)
    before = await versions(organization, kb)
    first, second = [await request_rebuild(organization, kb) for _ in range(2)]
    assert first["index_rebuild"] == "requested"
    assert first == second
    # Dropped what had failed, and killed before the update.
    await life_cycle._begin_rebuild(organization.database, await organization.stored(kb.kb_id))
    assert (await request_rebuild(organization, kb))["index_rebuild"] == "building"
    await step_until(organization, kb.kb_id, Status.ACTIVE)
    assert await versions(organization, kb) == {name: (index_id, 1) for name, (index_id, _) in before.items()}
    shown = await organization.ok("GET", f"/knowledge-bases/{kb.kb_id}")
    assert (shown["index_rebuild"], shown["updated_at"]) == (None, first["updated_at"])
    await request_rebuild(organization, kb)
    await step_until(organization, kb.kb_id, Status.ACTIVE)
    assert {version for _, version in (await versions(organization, kb)).values()} == {2}


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.INDEXING, Status.ERROR])
async def test_an_index_that_failed_is_dropped_and_created_again(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch, status: Status
) -> None:
    kb = await built(organization, status)
    before = await versions(organization, kb)
    FailingTextIndex(monkeypatch)
    await request_rebuild(organization, kb)
    rebuilt = await step_until(organization, kb.kb_id, Status.ACTIVE)
    assert await chunk_indexes.read_state(organization.database[kb.vector_collection], rebuilt) is IndexState.READY
    after = await versions(organization, kb)
    assert {name for name in before if before[name][0] != after[name][0]} == {TEXT_INDEX}


async def test_an_index_that_fails_again_is_an_error_and_not_dropped_for_ever(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = await built(organization)
    failing = FailingTextIndex(monkeypatch, again=True)
    await request_rebuild(organization, kb)
    failed = await step_until(organization, kb.kb_id, Status.ERROR)
    assert failed.status_reason == life_cycle.INDEX_FAILED
    assert failing.drops == 1
    # The operator has added a search node.
    failing.drops, failing._again = 0, False
    assert (await request_rebuild(organization, kb))["index_rebuild"] == "requested"
    assert (await step_until(organization, kb.kb_id, Status.ACTIVE)).status_reason is None


async def test_a_request_during_an_update_is_not_taken_for_carried_out(organization: OrganizationClient) -> None:
    kb = await built(organization)
    await organization.ok("PUT", f"/knowledge-bases/{kb.kb_id}", json={"filterable_metadata": ["year"]})
    seen = await organization.stored(kb.kb_id)
    await request_rebuild(organization, kb)
    assert not await knowledge_bases.set_indexes_built(organization.database, seen)
    assert (await organization.stored(kb.kb_id)).index_rebuild is IndexRebuild.REQUESTED


async def test_indexes_that_are_built_for_the_first_time_are_left_to_the_life_cycle(
    organization: OrganizationClient,
) -> None:
    kb_id = (await organization.create())["kb_id"]
    kb = await organization.stored(kb_id)
    assert (await request_rebuild(organization, kb))["index_rebuild"] is None
    assert await organization.stored(kb_id) == kb
