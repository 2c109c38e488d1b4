"""Knowledge bases get the search indexes they lack, and nothing else is touched."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from kb_reconciler.drift.search_index import MAX_LAG, SEARCH_INDEX, find_lag, repair_search_indexes
from kb_shared.mongo import chunk_indexes, document_index, knowledge_bases, leases
from kb_shared.mongo.chunk_indexes import TEXT_INDEX, VECTOR_INDEX, IndexState
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from kb_shared.mongo.search_indexes import ListedIndex
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create
from tests.waiting import until

RECONCILER = "reconciler"


@pytest.fixture
async def knowledge(search_database: Database) -> Knowledge:
    return await create(search_database, "acme", filterable_metadata=("year",))


async def until_ready(knowledge: Knowledge) -> None:
    async def ready() -> bool:
        return await chunk_indexes.read_state(knowledge.chunks.collection, knowledge.kb) is IndexState.READY

    await until(ready)


async def test_a_knowledge_base_from_before_there_were_text_indexes_gets_one_that_finds_its_chunks(
    search_database: Database, knowledge: Knowledge
) -> None:
    await knowledge.index(DocumentToIndex("d1", ["kayak"], metadata={"year": 2024}))
    collection = knowledge.chunks.collection
    await collection.drop_search_index(TEXT_INDEX)
    assert await repair_search_indexes(search_database) == 1
    await until_ready(knowledge)
    compound = {
        "must": [{"text": {"path": "chunk_text", "query": "kayak"}}],
        "filter": [{"range": {"path": "metadata_snapshot.year", "gte": 2024}}],
    }
    found = await (await collection.aggregate([{"$search": {"index": TEXT_INDEX, "compound": compound}}])).to_list()
    assert [row["chunk_text"] for row in found] == ["kayak"]
    assert await repair_search_indexes(search_database) == 0


async def test_a_dropped_vector_index_comes_back(search_database: Database, knowledge: Knowledge) -> None:
    await knowledge.chunks.collection.drop_search_index(VECTOR_INDEX)
    assert await repair_search_indexes(search_database) == 1
    await until_ready(knowledge)


async def test_an_index_that_filters_by_other_keys_is_brought_up_to_date(
    search_database: Database, knowledge: Knowledge
) -> None:
    wanted = ["year", "language"]
    await search_database[knowledge_bases.NAME].update_one(
        {"_id": knowledge.kb.kb_id}, {"$set": {"filterable_metadata": wanted}}
    )
    assert await repair_search_indexes(search_database) == 1
    await until_ready(replace(knowledge, kb=replace(knowledge.kb, filterable_metadata=tuple(wanted))))


@pytest.mark.parametrize("status", [Status.CREATING, Status.BUILDING, Status.INDEXING, Status.DELETING])
async def test_an_index_of_a_knowledge_base_that_is_built_or_deleted_is_left_to_its_life_cycle(
    search_database: Database, knowledge: Knowledge, status: Status
) -> None:
    await knowledge.set_status(status)
    await knowledge.chunks.collection.drop_search_index(TEXT_INDEX)
    assert await repair_search_indexes(search_database) == 0


async def test_an_index_of_a_leased_knowledge_base_is_left_alone(
    search_database: Database, knowledge: Knowledge
) -> None:
    await knowledge.chunks.collection.drop_search_index(TEXT_INDEX)
    lease = f"kb/{knowledge.kb.kb_id}"
    assert await leases.acquire(search_database, lease, owner="life cycle", length=timedelta(minutes=5))
    assert await repair_search_indexes(search_database) == 0
    await leases.release(search_database, lease, owner="life cycle")
    assert await repair_search_indexes(search_database) == 1


async def test_an_index_that_failed_is_dropped_and_created_again(
    search_database: Database, knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = chunk_indexes._state  # no index of the search node fails
    failed = True

    def fail_text_index(index: ListedIndex, kb: KnowledgeBase) -> IndexState:
        return IndexState.FAILED if failed and index.name == TEXT_INDEX else state(index, kb)

    monkeypatch.setattr(chunk_indexes, "_state", fail_text_index)
    collection = knowledge.chunks.collection
    before = {row["name"]: row["id"] for row in await (await collection.list_search_indexes()).to_list()}
    assert await repair_search_indexes(search_database) == 1
    failed = False
    assert await repair_search_indexes(search_database) == 1
    await until_ready(knowledge)
    after = {row["name"]: row["id"] for row in await (await collection.list_search_indexes()).to_list()}
    assert {name for name in before if before[name] != after[name]} == {TEXT_INDEX}


async def test_a_text_index_that_lacks_chunks_for_long_is_reported_and_left_to_mongodb(
    search_database: Database, knowledge: Knowledge
) -> None:
    await knowledge.index(DocumentToIndex("d1", ["kayak", "canoe"]))
    await knowledge.index(DocumentToIndex("d2", ["raft"]))
    await until_ready(knowledge)
    rows = search_database[document_index.NAME]
    assert not await SEARCH_INDEX.detect(search_database, knowledge.kb)
    await rows.update_one({"document_id": "d2"}, {"$inc": {"chunk_count": 7}})
    assert not await SEARCH_INDEX.detect(search_database, knowledge.kb), "it may still be on its way"

    await rows.update_many({}, {"$set": {"indexed_at": datetime.now(UTC) - MAX_LAG}})

    assert await find_lag(search_database, knowledge.kb) == 7
    assert await SEARCH_INDEX.detect(search_database, knowledge.kb)
    with capture_logs() as logs:
        assert not await SEARCH_INDEX.repair(search_database, knowledge.kb)
    assert [(line["event"], line["chunks"]) for line in logs] == [("search_index.behind", 7)]
    assert await repair_search_indexes(search_database) == 0


async def test_an_index_that_does_not_answer_is_behind_by_all_chunks(
    search_database: Database, knowledge: Knowledge
) -> None:
    await knowledge.index(DocumentToIndex("d1", ["kayak", "canoe"]))
    await search_database[document_index.NAME].update_many({}, {"$set": {"indexed_at": datetime.now(UTC) - MAX_LAG}})
    await knowledge.chunks.collection.drop_search_index(TEXT_INDEX)
    assert await find_lag(search_database, knowledge.kb) == 2
