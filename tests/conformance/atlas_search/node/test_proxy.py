"""Everything that is not search goes through untouched."""

import asyncio
import os
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson import Int64
from bson.raw_bson import RawBSONDocument
from pymongo import AsyncMongoClient
from pymongo.write_concern import WriteConcern

from kb_local.mongod import Mongod
from kb_local.search_node.server import SearchNode, serve
from tests.conformance.atlas_search.deployment import Collection, connect, eventually, own_collection
from tests.conformance.atlas_search.node.wire import read_reply, request

LOOPBACK = "127.0.0.1"
EXHAUST_ALLOWED = 1 << 16
MORE_TO_COME = 2


@pytest.fixture(scope="module")
async def node(mongod: Mongod) -> AsyncIterator[SearchNode]:
    async with serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node:
        yield node


@pytest.fixture
async def things(node: SearchNode) -> AsyncIterator[Collection]:
    async with (
        connect(node.uri) as client,
        own_collection(client) as collection,
    ):
        yield collection


async def test_a_document_of_15_megabytes_passes_unchanged(things: Collection) -> None:
    payload = os.urandom(15_000_000)
    await things.insert_one({"_id": 1, "payload": payload})
    found = await things.find_one({"_id": 1})
    assert found == {"_id": 1, "payload": payload}


async def raw_documents(uri: str, collection: Collection) -> list[bytes]:
    async with AsyncMongoClient[RawBSONDocument](
        uri, document_class=RawBSONDocument, directConnection=True, serverMonitoringMode="poll"
    ) as client:
        cursor = client[collection.database.name][collection.name].find().sort("_id", 1)
        return [bytes(one.raw) async for one in cursor]


async def test_documents_come_back_byte_for_byte(things: Collection, node: SearchNode, mongod: Mongod) -> None:
    await things.insert_many([{"_id": number, "text": "x" * 6000, "n": Int64(number)} for number in range(1500)])
    proxied = await raw_documents(node.uri, things)
    assert proxied == await raw_documents(mongod.uri, things)
    assert len(proxied) == 1500


async def test_three_hundred_connections_are_served_at_once(node: SearchNode) -> None:
    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*node.address)
        return reader, writer

    connections = await asyncio.gather(*(connect() for _ in range(300)))
    try:
        for round_number in (1, 2):
            for _, writer in connections:
                writer.write(request({"ping": 1, "$db": "admin"}, request_id=round_number))
            replies = await asyncio.gather(*(read_reply(reader) for reader, _ in connections))
            assert all(reply["ok"] == 1 and answers == round_number for _, answers, _, reply in replies)
    finally:
        for _, writer in connections:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in connections), return_exceptions=True)


@pytest.mark.parametrize("size", [1, 17, 70, 10_000])
async def test_commands_are_understood_in_whatever_pieces_they_arrive(node: SearchNode, size: int) -> None:
    reader, writer = await asyncio.open_connection(*node.address)
    listing: dict[str, Any] = {
        "aggregate": "none",
        "pipeline": [{"$listSearchIndexes": {}}],
        "cursor": {},
        "$db": "none",
    }
    ping: dict[str, Any] = {"ping": 1, "$db": "admin"}
    # A command is answered before the next one is sent, as drivers do; only the answered ones are sent in one packet.
    packets = [[ping], [listing, ping], [listing, listing, ping]]
    try:
        for packet in packets:
            data = b"".join(request(command, request_id=number) for number, command in enumerate(packet))
            for start in range(0, len(data), size):
                writer.write(data[start : start + size])
                await writer.drain()
            assert [(await read_reply(reader))[1] for _ in packet] == list(range(len(packet)))
    finally:
        writer.close()
        await writer.wait_closed()


async def test_later_commands_wait_for_one_that_the_node_works_on(mongod: Mongod) -> None:
    async with serve((LOOPBACK, 0), (LOOPBACK, mongod.port)) as node:
        await node.wait_ready()
        node._catalogue.loaded.clear()
        reader, writer = await asyncio.open_connection(*node.address)
        try:
            listing = {"aggregate": "none", "pipeline": [{"$listSearchIndexes": {}}], "cursor": {}, "$db": "none"}
            writer.write(request(listing, request_id=1) + request({"ping": 1, "$db": "admin"}, request_id=2))
            first = asyncio.create_task(read_reply(reader))
            done, _ = await asyncio.wait([first], timeout=0.2)
            assert not done
            node._catalogue.loaded.set()
            assert [(await first)[1], (await read_reply(reader))[1]] == [1, 2]
        finally:
            writer.close()
            await writer.wait_closed()


async def test_a_driver_that_discovers_the_replica_set_stays_on_the_node(node: SearchNode) -> None:
    uri = f"{node.uri}?replicaSet=rs0&compressors=zlib"
    async with AsyncMongoClient[dict[str, Any]](uri, serverMonitoringMode="poll") as client:
        await client.admin.command("ping")
        assert client.nodes == frozenset({node.address})
        assert await client.primary == node.address


async def test_hello_names_the_node_and_offers_no_compression(node: SearchNode) -> None:
    own = "{}:{}".format(*node.address)
    reader, writer = await asyncio.open_connection(*node.address)
    try:
        for name in ("hello", "isMaster"):
            writer.write(request({name: 1, "compression": ["zlib"], "$db": "admin"}))
            _, _, _, reply = await read_reply(reader)
            assert (reply["me"], reply["primary"], reply["hosts"]) == (own, own, [own])
            assert "compression" not in reply
    finally:
        writer.close()
        await writer.wait_closed()


async def test_every_reply_of_an_exhaust_hello_names_the_node(node: SearchNode) -> None:
    reader, writer = await asyncio.open_connection(*node.address)
    try:
        writer.write(request({"hello": 1, "$db": "admin"}))
        _, _, _, first = await read_reply(reader)
        await_change = {"hello": 1, "topologyVersion": first["topologyVersion"], "maxAwaitTimeMS": 20, "$db": "admin"}
        writer.write(request(await_change, flags=EXHAUST_ALLOWED))
        previous = 7
        for _ in range(4):
            request_id, response_to, flags, reply = await read_reply(reader)
            assert (response_to, reply["me"]) == (previous, first["me"])
            assert flags & MORE_TO_COME
            previous = request_id
    finally:
        writer.close()
        await writer.wait_closed()


async def test_unacknowledged_writes_and_change_streams_pass(things: Collection) -> None:
    unacknowledged = things.with_options(write_concern=WriteConcern(w=0))
    async with await things.watch() as stream:
        for number in range(50):
            await unacknowledged.insert_one({"_id": number})
        seen = [(await stream.next())["documentKey"]["_id"] for _ in range(50)]
    assert sorted(seen) == list(range(50))


@pytest.mark.parametrize(
    "malformed", [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", struct.pack("<iiii", 16, 1, 0, 2012)]
)
async def test_a_connection_that_does_not_speak_the_wire_protocol_is_closed(node: SearchNode, malformed: bytes) -> None:
    reader, writer = await asyncio.open_connection(*node.address)
    writer.write(malformed)
    try:
        async with asyncio.timeout(30):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.readexactly(1)
    finally:
        writer.close()


async def test_a_client_that_leaves_takes_its_connection_to_mongod_along(node: SearchNode, mongod: Mongod) -> None:
    async with connect(mongod.uri) as direct:

        async def of_app() -> int:
            pipeline: list[dict[str, Any]] = [
                {"$currentOp": {"idleConnections": True}},
                {"$match": {"appName": "leaving"}},
            ]
            return len(await (await direct.admin.aggregate(pipeline)).to_list())

        async with connect(node.uri, appname="leaving") as client:
            await client.admin.command("ping")
            assert await of_app() > 0

        async def gone() -> bool:
            return await of_app() == 0

        await eventually(gone)


def test_the_node_refuses_to_listen_for_other_machines() -> None:
    command = [sys.executable, "-m", "kb_local.search_node", "--listen", "0.0.0.0:0", "--mongod", "127.0.0.1:1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, "loopback only" in ended.stderr) == (2, True)
