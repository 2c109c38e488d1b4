"""Readers that never stop while a document is replaced again and again, on an index that trails by a second."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from pymongo import AsyncMongoClient

from kb_local.mongod import Mongod
from kb_local.ports import LOOPBACK, free_port
from kb_local.python_server import SearchNodeProcess
from kb_local.search_node.refresh import Delays
from kb_local.search_node.server import serve
from kb_search.bootstrap import create_app
from kb_search.settings import SearchSettings
from kb_shared.chat.chat import create_chat
from kb_shared.embedding.bootstrap import create_embedder
from kb_shared.mongo.database import Database, Row
from tests.conftest import RunningMongo
from tests.integration.search.conftest import ORGANIZATION, SearchingCaller, key_for
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create, relevance
from tests.waiting import until

READERS = 2
PERIODS_S = (0.3, 0.3, 0.3, 0.3, 0.3, 1.6)


@pytest.fixture
async def trailing_database(mongod: RunningMongo | Mongod, server_logs: Path) -> AsyncIterator[Database]:
    """A database behind a search node with lag; a deployment of its own has lag of its own."""
    name = f"test_{uuid4().hex[:16]}"
    if isinstance(mongod, RunningMongo):
        async with AsyncMongoClient[Row](mongod.uri, tz_aware=True) as client:
            yield client[name]
            await client.drop_database(name)
        return
    node = SearchNodeProcess(
        mongod=mongod.address, port=free_port(), log=server_logs / "trailing-search-node.log", lag_ms=1000
    )
    await node.start()
    async with AsyncMongoClient[Row](node.uri, tz_aware=True) as client:
        yield client[name]
        await client.drop_database(name)
    await node.stop()


@pytest.fixture
async def trailing_searcher(trailing_database: Database, settings: SearchSettings) -> AsyncIterator[SearchingCaller]:
    async with searcher_of(trailing_database, settings) as searcher:
        yield searcher


@asynccontextmanager
async def searcher_of(database: Database, settings: SearchSettings) -> AsyncIterator[SearchingCaller]:
    embedder = create_embedder(database, settings, patience_s=1)
    chat = create_chat(database, settings)
    app = create_app(settings, database=database, embedder=embedder, chat=chat)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://search") as http:
        yield SearchingCaller(http, await key_for(database, settings, ORGANIZATION))
    await chat.close()
    await embedder.close()


def change_text(n: int, texts: Sequence[str], chance: random.Random) -> list[str]:
    """Insert at the head, remove, change, replace all, reverse, leave."""
    position = chance.randrange(len(texts))
    match n % 6:
        case 0:
            return [f"inserted {n}", *texts]
        case 1:
            return [*texts[:position], *texts[position + 1 :]]
        case 2:
            return [*texts[:position], f"changed {n}", *texts[position + 1 :]]
        case 3:
            return [f"replaced {n} {m}" for m in range(chance.randrange(6, 14))]
        case 4:
            return list(reversed(texts))
    return list(texts)


@dataclass
class ReadErrors:
    """States of a document that readers saw and must never see."""

    versions: list[list[str]]
    reads: int = 0
    empty: int = 0
    mixed: list[set[str]] = field(default_factory=list)
    wrong_texts: list[str] = field(default_factory=list)

    def judge(self, query: str, results: Sequence[Row]) -> None:
        self.reads += 1
        texts = {result["content"] for result in results}
        self.empty += not texts
        if not any(texts <= set(version) for version in self.versions):
            self.mixed.append(texts)
        self.wrong_texts += [
            result["content"]
            for result in results
            if abs(result["relevance"] - relevance(query, result["content"])) > 1e-4
        ]


async def read(searcher: SearchingCaller, knowledge: Knowledge, readings: ReadErrors, chance: random.Random) -> None:
    while True:
        query = chance.choice(readings.versions[-chance.choice([1, 1, 2]) :][0])
        answer = await searcher.search(knowledge, query, top_k=20, document_ids=["d"])
        readings.judge(query, answer["results"])


async def test_a_document_is_never_missing_and_never_mixed_while_it_is_replaced(
    trailing_searcher: SearchingCaller, trailing_database: Database
) -> None:
    chance = random.Random(7)
    knowledge = await create(trailing_database, ORGANIZATION)
    texts = [f"paragraph {n}" for n in range(10)]
    readings = ReadErrors([texts])
    for noise in range(3):
        await knowledge.index(
            DocumentToIndex(f"noise{noise}", [f"noise {noise} {n}" for n in range(10)]), searchable=False
        )
    await knowledge.index(DocumentToIndex("d", texts))

    readers = [
        asyncio.create_task(read(trailing_searcher, knowledge, readings, random.Random(seed)))
        for seed in range(READERS)
    ]
    for n, period_s in enumerate(PERIODS_S):
        texts = change_text(n, texts, chance)
        readings.versions.append(texts)
        await knowledge.index(DocumentToIndex("d", texts), searchable=False)
        # Not a wait for something: swaps of the trailing index's own pace are what is tested.
        done, _ = await asyncio.wait(readers, timeout=period_s, return_when=asyncio.FIRST_COMPLETED)
        for reader in done:
            reader.result()
        enough = readings.reads + READERS
        await until(lambda enough=enough: readings.reads >= enough, what="readers to come by")
    await knowledge.wait_until_found(DocumentToIndex("d", texts))
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)

    assert (readings.empty, readings.mixed, readings.wrong_texts) == (0, [], [])
    answer = await trailing_searcher.search(knowledge, texts[0], top_k=20, document_ids=["d"])
    assert {result["content"] for result in answer["results"]} == set(texts)


async def test_an_index_that_is_being_built_is_no_empty_answer(
    mongod: RunningMongo | Mongod, database_name: str, settings: SearchSettings
) -> None:
    if not isinstance(mongod, Mongod):
        pytest.skip("only the search node can be told how long to build an index")
    async with (
        serve((LOOPBACK, 0), (LOOPBACK, mongod.port), delays=Delays(build_s=3600)) as node,
        AsyncMongoClient[Row](f"{node.uri}?directConnection=true", tz_aware=True) as client,
        searcher_of(client[database_name], settings) as searcher,
    ):
        knowledge = await create(client[database_name], ORGANIZATION, ready=False)
        response = await searcher.post(knowledge, {"query": "x"})
        await client.drop_database(database_name)
    assert (response.status_code, response.json()["type"]) == (503, "index-not-ready")
