"""A MongoDB without Atlas search is no empty answer and no bug, and it is noticed when it has search again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from pymongo import AsyncMongoClient

from kb_local.mongod import Mongod
from kb_local.ports import LOOPBACK
from kb_local.python_server import SearchNodeProcess
from kb_search.settings import SearchSettings
from kb_shared.mongo.database import Database, Row
from tests.conftest import RunningMongo
from tests.integration.search.conftest import ORGANIZATION, SearchingCaller
from tests.integration.search.knowledge import DocumentToIndex, create
from tests.integration.search.test_replacement import searcher_of
from tests.waiting import until


class Forwarder:
    """One address, behind which one server or another may be."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: set[asyncio.StreamWriter] = set()

    def redirect(self, port: int) -> None:
        """End all connections; new ones go elsewhere."""
        self._port = port
        for writer in self._writers:
            writer.close()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(LOOPBACK, self._port)
        own = {writer, there_writer}
        self._writers |= own
        await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))
        self._writers -= own


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def database_behind(forwarder: Forwarder, name: str) -> AsyncIterator[Database]:
    server = await asyncio.start_server(forwarder.connected, LOOPBACK, 0)
    port = server.sockets[0].getsockname()[1]
    async with AsyncMongoClient[Row](LOOPBACK, port, directConnection=True, tz_aware=True) as client:
        yield client[name]
    server.close()


@pytest.mark.parametrize("mode", ["vector", "text", "hybrid"])
async def test_a_search_without_atlas_search_is_a_503_that_says_so(
    mongod: Mongod | RunningMongo, search_database: Database, settings: SearchSettings, mode: str
) -> None:
    plain(mongod)
    knowledge = await create(search_database, ORGANIZATION)
    async with (
        AsyncMongoClient[Row](mongod.uri, tz_aware=True) as client,
        searcher_of(client[search_database.name], settings) as searcher,
    ):
        answer = await searcher.post(knowledge, {"query": "anything", "mode": mode})
        assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
        assert answer.json()["type"] == "search-unavailable"
        assert "KB_MONGO_URI" in answer.json()["detail"]
        assert int(answer.headers["retry-after"]) > 0


async def test_the_service_is_not_ready_without_atlas_search_and_ready_again_with_it(
    mongod: Mongod | RunningMongo,
    search_node: SearchNodeProcess | RunningMongo,
    search_database: Database,
    settings: SearchSettings,
) -> None:
    without, node = plain(mongod), search_node
    assert isinstance(node, SearchNodeProcess)
    knowledge = await create(search_database, ORGANIZATION)
    await knowledge.index(DocumentToIndex("d", ["a paragraph"]))
    forwarder = Forwarder(node.port)
    async with (
        database_behind(forwarder, search_database.name) as database,
        searcher_of(database, settings) as searcher,
    ):
        await until(lambda: says(searcher, None))
        forwarder.redirect(without.port)
        await until(lambda: says(searcher, "has no Atlas search"))
        assert (await searcher.post(knowledge, {"query": "x"})).json()["type"] == "search-unavailable"
        forwarder.redirect(node.port)
        await until(lambda: says(searcher, None))
        assert [hit["document_id"] for hit in (await searcher.search(knowledge))["results"]] == ["d"]


async def says(searcher: SearchingCaller, reason: str | None) -> bool:
    """Say whether `/readyz` is ready, or not ready for this reason."""
    answer = await searcher.http.get("/readyz")
    if reason is None:
        return answer.status_code == 200
    return answer.status_code == 503 and reason in answer.json()["reason"]


def plain(mongod: Mongod | RunningMongo) -> Mongod:
    if isinstance(mongod, RunningMongo):
        pytest.skip("a deployment with search of its own has no plain mongod to ask")
    return mongod
