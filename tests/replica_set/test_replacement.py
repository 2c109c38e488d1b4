"""A document that is replaced stays findable when the next primary's index trails more than that of the one before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient

from kb_indexer.searchable import SearchProbe
from kb_local.mongod import REPLICA_SET
from kb_local.python_server import ModelServerProcess
from kb_local.replica_set import ReplicaSet
from kb_local.search_nodes import SearchNodes
from kb_search.settings import SearchSettings
from kb_shared.mongo import index_queries, vectors
from kb_shared.mongo.database import Database, Row
from tests.integration.search.conftest import ORGANIZATION, SearchingCaller
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create
from tests.integration.search.test_replacement import searcher_of
from tests.waiting import until

LAG_MS = 5000
PATIENCE_S = 3.0
"""Longer than the probe takes on an index without lag."""
BEFORE, AFTER = DocumentToIndex("d", ["it was so"]), DocumentToIndex("d", ["now it is otherwise"])


@asynccontextmanager
async def trailing_nodes(replica_set: ReplicaSet, logs: Path) -> AsyncIterator[SearchNodes]:
    """Nodes of which that of the primary shows everything at once, and the others after five seconds."""
    primary = await replica_set.primary()
    lags_ms = [0 if member is primary else LAG_MS for member in replica_set.members]
    nodes = SearchNodes(replica_set.addresses, set_name=REPLICA_SET, logs=logs, lags_ms=lags_ms)
    await nodes.start()
    try:
        yield nodes
    finally:
        await nodes.stop()


@asynccontextmanager
async def knowledge_behind(nodes: SearchNodes, database_name: str) -> AsyncIterator[Knowledge]:
    """A KB with a document that every node knows."""
    async with AsyncMongoClient[Row](nodes.uri, tz_aware=True, w="majority") as client:
        knowledge = await create(client[database_name], ORGANIZATION)
        await knowledge.index(BEFORE)
        for node in nodes.nodes:
            async with AsyncMongoClient[Row](node.uri, tz_aware=True) as direct:
                await Knowledge(direct[database_name], knowledge.kb).wait_until_found(BEFORE)
        yield knowledge
        await client.drop_database(database_name)


async def replace(knowledge: Knowledge, probe: SearchProbe) -> None:
    """Swap the document as an indexer does, and watch for it."""
    await knowledge.index(AFTER, searchable=False)
    [(chunk_id, chunk)] = vectors.chunk_ids(AFTER.document_id, AFTER.chunks()).items()
    probe.watch(
        knowledge.chunks,
        AFTER.document_id,
        chunk,
        ids=[chunk_id],
        version=2,
        retired=True,
        occurred_at=datetime.now(UTC),
        path="live",
    )


async def collect_unexpected_texts(searcher: SearchingCaller, knowledge: Knowledge) -> list[Any]:
    """Search until the new text was found twenty times in a row; what searches showed that was neither version."""
    seen: list[Any] = []

    async def replaced() -> bool:
        answer = await searcher.post(knowledge, {"query": "it"})
        if answer.status_code == 200:
            seen.append([hit["content"] for hit in answer.json()["results"]])
        else:
            assert answer.status_code == 503, answer.text
        return seen[-20:] == [list(AFTER.texts)] * 20

    await until(replaced)
    return [shown for shown in seen if shown not in (list(BEFORE.texts), list(AFTER.texts))]


async def retired_are_gone(knowledge: Knowledge) -> bool:
    return await knowledge.chunks.collection.count_documents({"until": {"$ne": None}}) == 0


async def test_a_document_is_never_missing_after_a_step_down_to_an_index_that_trails_more(
    replica_set: ReplicaSet, model_server: ModelServerProcess, tmp_path: Path, database_name: str
) -> None:
    probe = SearchProbe()
    async with (
        trailing_nodes(replica_set, tmp_path) as nodes,
        knowledge_behind(nodes, database_name) as knowledge,
        searcher_of(knowledge.database, SearchSettings(local_models_api_base=model_server.api_base)) as searcher,
    ):
        await replace(knowledge, probe)
        with suppress(TimeoutError):
            await until(partial(retired_are_gone, knowledge), within_s=PATIENCE_S)
        await replica_set.step_down()
        assert await collect_unexpected_texts(searcher, knowledge) == []
        await probe.close()


async def test_a_document_is_never_missing_when_the_primary_dies_before_the_other_nodes_have_heard_of_the_swap(
    replica_set: ReplicaSet, model_server: ModelServerProcess, tmp_path: Path, database_name: str
) -> None:
    primary = await replica_set.primary()
    async with (
        trailing_nodes(replica_set, tmp_path) as nodes,
        knowledge_behind(nodes, database_name) as knowledge,
        searcher_of(knowledge.database, SearchSettings(local_models_api_base=model_server.api_base)) as searcher,
    ):
        others = [node for node, member in zip(nodes.nodes, replica_set.members, strict=True) if member is not primary]
        for node in others:
            await node.pause()
        await knowledge.index(AFTER, searchable=False)
        await primary.kill()
        for node in others:
            node.resume()
        assert await collect_unexpected_texts(searcher, knowledge) == []


async def test_replaced_chunks_are_deleted_once_every_member_finds_their_successors(
    replica_set: ReplicaSet, tmp_path: Path, database_name: str
) -> None:
    probe = SearchProbe()
    async with (
        trailing_nodes(replica_set, tmp_path) as nodes,
        knowledge_behind(nodes, database_name) as knowledge,
    ):
        await replace(knowledge, probe)
        await until(partial(retired_are_gone, knowledge))
        for node in nodes.nodes:
            async with AsyncMongoClient[Row](node.uri, tz_aware=True) as direct:
                assert await finds(direct[database_name], knowledge)
        await probe.close()


async def finds(database: Database, knowledge: Knowledge) -> bool:
    chunks = Knowledge(database, knowledge.kb).chunks
    found = await index_queries.query_vector_index(
        chunks, AFTER.chunks()[0].vector, limit=1, query_filter={}, exact=True
    )
    return found.keys() == vectors.chunk_ids(AFTER.document_id, AFTER.chunks()).keys()
