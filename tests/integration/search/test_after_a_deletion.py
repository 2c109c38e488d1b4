"""An index that still finds what has left does not hide what is there."""

from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from kb_local.model_server.hash_model import vector_of
from kb_local.mongod import Mongod
from kb_local.ports import free_port
from kb_local.python_server import SearchNodeProcess
from kb_shared.mongo import chunk_indexes, document_index, search_indexes, vectors
from kb_shared.mongo.chunk_indexes import NAMES
from kb_shared.mongo.database import Database, MongoSession, Row, in_transaction
from kb_shared.mongo.index_queries import query_vector_index
from kb_shared.mongo.keys import MembershipKey
from tests.conftest import RunningMongo
from tests.integration.search.conftest import ORGANIZATION, SearchingCaller
from tests.integration.search.knowledge import (
    DIMENSIONS,
    DocumentToIndex,
    Knowledge,
    create,
    knowledge_is_queryable,
    relevance,
)
from tests.waiting import until

QUERY = "kayak"
*GONE, A, B, C = sorted((f"{QUERY} {n}" for n in range(123)), key=lambda text: relevance(QUERY, text), reverse=True)
THERE = {A, B, C}


@pytest.fixture
async def search_database(mongod: RunningMongo | Mongod, database_name: str, tmp_path: Path) -> AsyncIterator[Database]:
    """Behind a search node that hears of changes and does not follow them in the time of a test."""
    if isinstance(mongod, RunningMongo):
        pytest.skip("only the search node can be told how far to trail")
    node = SearchNodeProcess(mongod=mongod.address, port=free_port(), log=tmp_path / "node.log", lag_ms=3_600_000)
    await node.start()
    async with AsyncMongoClient[Row](node.uri, tz_aware=True) as client:
        yield client[database_name]
        await client.drop_database(database_name)
    await node.stop()


@pytest.fixture
async def after_a_deletion(search_database: Database) -> Knowledge:
    """Three chunks, and 120 better ones that have left and that the indexes still find."""
    knowledge = await create(search_database, ORGANIZATION)
    gone = DocumentToIndex("gone", GONE, metadata={"year": 2025})
    await knowledge.index(gone, searchable=False)
    await knowledge.index(DocumentToIndex("there", sorted(THERE), metadata={"year": 2025}), searchable=False)
    # Indexes that are built find what is there already.
    for name in NAMES:
        await knowledge.chunks.collection.drop_search_index(name)

    async def dropped() -> bool:
        return not await search_indexes.list_indexes(knowledge.chunks.collection)

    await until(dropped)
    await chunk_indexes.ensure(knowledge.chunks.collection, knowledge.kb)
    await until(knowledge_is_queryable(knowledge))
    await knowledge.wait_until_found(gone)

    async def leave(session: MongoSession) -> None:
        await document_index.delete(search_database, session, MembershipKey(ORGANIZATION, knowledge.kb.kb_id, "gone"))
        await vectors.delete_document(knowledge.chunks, session, "gone")

    await in_transaction(search_database, leave)
    return knowledge


def contents(answer: dict[str, Any]) -> set[str]:
    return {result["content"] for result in answer["results"]}


async def test_remaining_documents_are_found_behind_deleted_ones(
    searcher: SearchingCaller, after_a_deletion: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = vector_of(QUERY, dimensions=DIMENSIONS)
    assert not await query_vector_index(after_a_deletion.chunks, query, limit=16, query_filter={}, exact=True), (
        "the gap is there"
    )

    async def found_by_words() -> bool:
        # The node has to hear of the deletion, which takes it a moment.
        return contents(await searcher.search(after_a_deletion, QUERY, mode="text")) == THERE

    await until(found_by_words)
    cases: product[tuple[str, dict[str, Any], int]] = product(
        ("vector", "hybrid", "text"), ({}, {"metadata_filter": {"year": 2025}}), (1_000, 0)
    )
    for mode, criteria, small_up_to in cases:
        monkeypatch.setattr("kb_search.retrieval.search_knowledge_base._SMALL_UP_TO_CHUNKS", small_up_to)
        answer = await searcher.search(after_a_deletion, QUERY, mode=mode, **criteria)
        assert contents(answer) == THERE, (mode, criteria, small_up_to)
        assert (answer["total_count"], answer["total_count_is_exact"]) == (3, True), (mode, criteria, small_up_to)
