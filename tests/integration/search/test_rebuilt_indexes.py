"""Searches while kb-api rebuilds the search indexes of their KB, and afterwards."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kb_api.life_cycle import LifeCycle
from kb_api.rebuild_search_indexes import rebuild_search_indexes
from kb_shared.http.authentication import Caller
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.chunk_indexes import NAMES
from kb_shared.mongo.database import Database
from tests.integration.search.conftest import ORGANIZATION, SearchingCaller
from tests.integration.search.knowledge import DocumentToIndex, Knowledge
from tests.waiting import until

CALLER = Caller(ORGANIZATION, "key", frozenset({Scope.WRITE}))


@pytest.fixture
async def life_cycle(search_database: Database) -> AsyncIterator[LifeCycle]:
    life_cycle, stop = LifeCycle(search_database, interval_s=0.02), asyncio.Event()
    running = asyncio.create_task(life_cycle.run(stop))
    yield life_cycle
    stop.set()
    await running


async def is_rebuilt(knowledge: Knowledge) -> bool:
    kb = await knowledge_bases.get(knowledge.database, knowledge.kb.key)
    return kb.index_builds == 1 and kb.index_rebuild is None


async def listed(knowledge: Knowledge) -> dict[str, Any]:
    rows = await (await knowledge.chunks.collection.list_search_indexes()).to_list()
    return {row["name"]: (row["id"], row["latestDefinitionVersion"]["version"], row["status"]) for row in rows}


@pytest.mark.parametrize("name", NAMES)
async def test_what_was_indexed_is_found_again_after_an_index_was_dropped_by_hand(
    searcher: SearchingCaller, knowledge: Knowledge, life_cycle: LifeCycle, name: str
) -> None:
    await knowledge.index(DocumentToIndex("d", ["kayak"]))
    await knowledge.chunks.collection.drop_search_index(name)
    assert (await searcher.post(knowledge, {"query": "kayak"})).json()["type"] == "index-not-ready"
    await rebuild_search_indexes(knowledge.database, CALLER, kb_id=knowledge.kb.kb_id, life_cycle=life_cycle)
    await until(lambda: is_rebuilt(knowledge))
    answer = await searcher.search(knowledge, "kayak")
    assert [result["content"] for result in answer["results"]] == ["kayak"]
    assert all(score is not None for score in answer["results"][0]["scores"].values())


async def test_no_search_fails_or_finds_less_while_healthy_indexes_are_rebuilt(
    searcher: SearchingCaller, knowledge: Knowledge, life_cycle: LifeCycle
) -> None:
    texts = [f"kayak {number}" for number in range(5)]
    await knowledge.index(DocumentToIndex("d", texts))
    before = await listed(knowledge)
    await rebuild_search_indexes(knowledge.database, CALLER, kb_id=knowledge.kb.kb_id, life_cycle=life_cycle)
    is_done = False
    while not is_done:
        is_done = await is_rebuilt(knowledge)
        answer = await searcher.search(knowledge, "kayak", top_k=5)
        assert {result["content"] for result in answer["results"]} == set(texts)
    assert await listed(knowledge) == {name: (index_id, 1, "READY") for name, (index_id, _, _) in before.items()}
