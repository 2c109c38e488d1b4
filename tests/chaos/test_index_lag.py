"""Readers over HTTP while documents are indexed again, with an index that trails by a second and cuts transactions."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
from pymongo import AsyncMongoClient

from kb_local.mongod import Mongod
from kb_local.stack import Stack
from tests.chaos.crashes import Servers
from tests.chaos.document_reader import DocumentReader
from tests.chaos.quiescence import until_quiescent
from tests.chaos.revisions import Revisions
from tests.chaos.workload import Upstream, paragraph
from tests.conftest import RunningMongo
from tests.e2e.system import DIMENSIONS, QUICK, SystemUnderTest, system, until

LAG_MS = 1000
READERS = 3
READS_A_CHANGE = 6
"""So many that some of them meet the swap."""
OTHER_DOCUMENTS = 20


@pytest.fixture(scope="module")
async def lagging(
    mongod: RunningMongo | Mongod, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SystemUnderTest]:
    if isinstance(mongod, RunningMongo):
        pytest.skip("only the search node can be told how far to trail")
    name = f"lag_{uuid4().hex[:12]}"
    async with (
        Stack(
            tmp_path_factory.mktemp("lag"),
            services=("kb_api", "kb_indexer", "kb_search"),
            env=QUICK,
            lag_ms=LAG_MS,
            mongo_uri=mongod.uri,
            kafka=servers.kafka,
            models_api_base=servers.models_api_base,
            zygote=servers.zygote,
            database=name,
            topic_prefix=f"{name}.",
        ) as stack,
        system(stack) as opened,
    ):
        yield opened
        await opened.database.client.drop_database(name)


async def test_no_read_is_empty_or_mixed_while_a_document_changes(lagging: SystemUnderTest) -> None:
    await _change_and_read(lagging, fast=7, slow=3)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_no_read_is_empty_or_mixed_in_a_hundred_changes(lagging: SystemUnderTest) -> None:
    await _change_and_read(lagging, fast=100, slow=100)


async def _change_and_read(lagging: SystemUnderTest, *, fast: int, slow: int) -> None:
    """Change one document every 0.3 s and another every 2.5 s, with readers of both."""
    tag = f"t-{uuid4().hex[:8]}"
    await lagging.create_tags(tag)
    kb_id = await lagging.create_knowledge_base(tag)
    readers = [DocumentReader(lagging, kb_id, f"{tag}-{pace}", Revisions(f"{tag} {pace}")) for pace in ("fast", "slow")]
    await _publish_first(readers, kb_id, tag)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for reader in readers:
            for _ in range(READERS):
                group.create_task(reader.read_until(stop))
        changes = [
            group.create_task(_change(readers[0], tag, times=fast, every_s=0.3)),
            group.create_task(_change(readers[1], tag, times=slow, every_s=2.5)),
        ]
        await asyncio.gather(*changes)
        stop.set()
    for reader in readers:
        assert reader.violations == []
        await _until_index_knows(reader)
        for _ in range(10):
            assert await reader.read() == set(reader.revisions.newest), "something retired is shown"
    await until(lambda: _nothing_retired(lagging, kb_id), what="what was replaced is deleted")


async def _publish_first(readers: Sequence[DocumentReader], kb_id: str, tag: str) -> None:
    lagging = readers[0].system
    upstream = Upstream(lagging.organization_id)
    others = [
        upstream.ocr(f"{tag}-{n}", [paragraph(f"{tag} {n}-{k}") for k in range(3)], tags=[tag])
        for n in range(OTHER_DOCUMENTS)
    ]
    first = [upstream.ocr(reader.document_id, reader.revisions.newest, tags=[tag]) for reader in readers]
    await lagging.events.publish_all([*others, *first])
    await until_quiescent(lagging)
    await lagging.until_active(kb_id)
    for reader in readers:
        await _until_index_knows(reader)


async def _change(reader: DocumentReader, tag: str, *, times: int, every_s: float) -> None:
    """Publish the next text, see it swapped in, and so on, a swap every `every_s`."""
    lagging, document_id = reader.system, reader.document_id
    upstream = Upstream(lagging.organization_id)
    due = monotonic()
    for _ in range(times):
        text = reader.revisions.step()
        revision = len(reader.revisions.published)
        await lagging.events.publish(upstream.ocr(document_id, text, tags=[tag], revision=revision))
        swapped = {"kb_id": reader.kb_id, "document_id": document_id, "text_revision": revision}
        await until(partial(_exists, lagging, swapped), what=f"{document_id} in revision {revision}")
        await until(partial(_was_read, reader, times=READS_A_CHANGE * revision), what=f"{document_id} is read")
        due = max(due + every_s, monotonic())
        # The pace of the swaps, not a wait for one.
        await asyncio.sleep(due - monotonic())


async def _was_read(reader: DocumentReader, *, times: int) -> bool:
    return reader.reads >= times


async def _exists(lagging: SystemUnderTest, row: dict[str, Any]) -> bool:
    return await lagging.database.document_index.find_one(row) is not None


async def _until_index_knows(reader: DocumentReader) -> None:
    """Wait until the index itself answers with every live chunk; retired ones it may know still."""
    chunks = f"kb_vectors_{reader.kb_id}"
    live = {
        row["_id"]
        async for row in reader.system.database[chunks].find({"document_id": reader.document_id, "until": None})
    }
    stage = {
        "index": "kb_vector_index",
        "path": "embedding",
        "queryVector": [1.0] * DIMENSIONS,
        "exact": True,
        "limit": 200,
        "filter": {"document_id": reader.document_id},
    }
    async with AsyncMongoClient[dict[str, Any]](reader.system.stack.mongo_uri) as client:
        collection = client[reader.system.stack.database][chunks]

        async def knows() -> bool:
            hits = await collection.aggregate([{"$vectorSearch": stage}, {"$project": {"_id": 1}}])
            return live <= {hit["_id"] async for hit in hits}

        await until(knows)


async def _nothing_retired(lagging: SystemUnderTest, kb_id: str) -> bool:
    return await lagging.database[f"kb_vectors_{kb_id}"].count_documents({"until": {"$ne": None}}) == 0
