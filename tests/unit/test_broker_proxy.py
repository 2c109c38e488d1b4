"""The proxy before the local broker, between a client and a broker that are sockets of the test."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from kb_local.broker_proxy import connections
from kb_local.broker_proxy.connections import (
    LOOK_PER_QUIET,
    SHORTEST_LOOK_S,
    SHORTEST_WAIT_S,
    WAIT_PER_QUIET,
    KafkaClientConnection,
    RecordsNews,
)
from kb_local.ports import LOOPBACK
from tests.waiting import until

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
LONG_MS = 600_000
"""Longer than a test lasts: what is answered was not waited for."""
SOON_S = 20.0
"""Much shorter than a test may take, so that a fault shows soon."""
SHORTEST_LOOK_MS = round(1000 * SHORTEST_LOOK_S)
WAIT_AT = 20
"""Place of the waiting time in `fetch`."""


def request(api_key: int, correlation_id: int, body: bytes, *, version: int = 4) -> bytes:
    rest = struct.pack(">hhi", api_key, version, correlation_id) + struct.pack(">h", 2) + b"me" + body
    return struct.pack(">i", len(rest)) + rest


def fetch(
    correlation_id: int, positions: Sequence[tuple[int, int]] = ((0, 7), (1, 5)), *, max_wait_ms: int = LONG_MS
) -> bytes:
    """Build a fetch of these partitions of a topic, each with its offset."""
    partitions = b"".join(struct.pack(">iqi", partition, offset, 1024) for partition, offset in positions)
    topics = struct.pack(">ih", 1, 6) + b"events" + struct.pack(">i", len(positions)) + partitions
    return request(FETCH, correlation_id, struct.pack(">iiiib", -1, max_wait_ms, 1, 1024, 1) + topics)


def read_ids(data: bytes) -> list[int]:
    """Read the correlation id of each request in `data`."""
    ids = []
    while data:
        size, _, _, correlation_id = struct.unpack_from(">ihhi", data)
        ids.append(correlation_id)
        data = data[4 + size :]
    return ids


@dataclass
class RecordingBroker:
    """Records what it receives; answers only what a test answers."""

    received: bytearray = field(default_factory=bytearray)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        while data := await reader.read(65536):
            self.received += data
        writer.close()

    def answer(self, correlation_id: int, *, connection: int = 0) -> None:
        self.writers[connection].write(struct.pack(">ii", 4 + 3, correlation_id) + b"...")

    async def until_received(self, ids: list[int]) -> None:
        await until(lambda: sorted(read_ids(bytes(self.received))) == sorted(ids), within_s=SOON_S)


@dataclass
class ProxiedBroker:
    broker: RecordingBroker
    news: RecordsNews
    port: int
    connections: list[KafkaClientConnection]
    clients: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port)
        self.clients.append(writer)
        return reader, writer

    async def until_waiting(self) -> None:
        await until(lambda: bool(self.news.waiting), within_s=SOON_S)


@asynccontextmanager
async def proxied() -> AsyncIterator[ProxiedBroker]:
    broker, news, made = RecordingBroker(), RecordsNews(), list[KafkaClientConnection]()
    behind = await asyncio.start_server(broker.serve, LOOPBACK, 0)
    address = behind.sockets[0].getsockname()

    def make_connection() -> KafkaClientConnection:
        made.append(KafkaClientConnection(address, news))
        return made[-1]

    front = await asyncio.get_running_loop().create_server(make_connection, LOOPBACK, 0)
    try:
        yield (proxy := ProxiedBroker(broker, news, front.sockets[0].getsockname()[1], made))
    finally:
        for writer in (*proxy.clients, *broker.writers):
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        front.close()
        behind.close()


async def test_a_fetch_that_repeats_the_last_one_waits_until_something_is_produced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "SHORTEST_WAIT_S", LONG_MS / 1000)
    async with proxied() as proxy:
        _, consumer = await proxy.connect()
        consumer.write(fetch(1))
        await proxy.broker.until_received([1])
        # A client names the partitions in any order.
        consumer.write(fetch(2, ((1, 5), (0, 7))))
        await proxy.until_waiting()
        assert read_ids(bytes(proxy.broker.received)) == [1]
        _, producer = await proxy.connect()
        producer.write(request(PRODUCE, 3, b"records"))
        await proxy.broker.until_received([1, 3])
        proxy.broker.answer(3, connection=1)
        await proxy.broker.until_received([1, 3, 2])


async def test_a_fetch_after_an_answer_to_a_producer_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "SHORTEST_WAIT_S", LONG_MS / 1000)
    async with proxied() as proxy:
        _, consumer = await proxy.connect()
        consumer.write(fetch(1))
        await proxy.broker.until_received([1])
        proxy.news.announce()
        consumer.write(fetch(2))
        await proxy.broker.until_received([1, 2])


async def test_a_fetch_of_other_positions_does_not_wait() -> None:
    async with proxied() as proxy:
        _, consumer = await proxy.connect()
        consumer.write(fetch(1) + fetch(2, ((0, 8), (1, 5))) + fetch(3, ((0, 8),)))
        await proxy.broker.until_received([1, 2, 3])


async def test_a_waiting_fetch_goes_before_the_next_request_of_its_connection() -> None:
    async with proxied() as proxy:
        _, consumer = await proxy.connect()
        consumer.write(fetch(1) + fetch(2) + request(METADATA, 3, b""))
        await proxy.broker.until_received([1, 2, 3])
        assert read_ids(bytes(proxy.broker.received)) == [1, 2, 3]


async def test_a_fetch_waits_no_longer_than_its_client_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SHORTEST_WAIT_S", LONG_MS / 1000)
    async with proxied() as proxy:
        _, consumer = await proxy.connect()
        consumer.write(fetch(1, max_wait_ms=1) + fetch(2, max_wait_ms=1))
        await proxy.broker.until_received([1, 2])


async def test_a_fetch_waits_a_moment_only_while_positions_change() -> None:
    async with proxied() as proxy:
        _, consumer = await proxy.connect()
        began = asyncio.get_running_loop().time()
        # It does not name the partition whose records the client still has.
        consumer.write(fetch(1) + fetch(2, ((1, 5),)) + fetch(3, ((1, 5),)))
        await proxy.broker.until_received([1, 2, 3])
        assert asyncio.get_running_loop().time() - began >= SHORTEST_WAIT_S


async def test_a_fetch_may_wait_longer_the_longer_no_position_has_changed() -> None:
    loop = asyncio.get_running_loop()
    async with proxied() as proxy:
        _, consumer = await proxy.connect()
        consumer.write(fetch(1))
        await proxy.broker.until_received([1])
        [connection] = proxy.connections
        connection._changed_at -= 600
        consumer.write(fetch(2))
        await proxy.until_waiting()
        assert connection._timer is not None
        assert connection._timer.when() - loop.time() > 600 * WAIT_PER_QUIET - SOON_S


async def test_only_the_answer_to_what_may_add_records_lets_fetches_go_on() -> None:
    async with proxied() as proxy:
        reader, producer = await proxy.connect()
        # The second one asks for no answer.
        producer.write(request(METADATA, 1, b"") + request(PRODUCE, 2, b"x") + request(METADATA, 3, b""))
        producer.write(request(PRODUCE, 4, b"x"))
        await proxy.broker.until_received([1, 2, 3, 4])
        for correlation_id, announced in ((1, 0), (3, 0), (4, 1)):
            proxy.broker.answer(correlation_id)
            await reader.readexactly(4 + 4 + 3)
            assert proxy.news.count == announced, correlation_id


async def test_the_broker_is_asked_not_to_let_fetches_wait_in_versions_that_the_proxy_understands() -> None:
    async with proxied() as proxy:
        _, consumer = await proxy.connect()
        unknown = request(FETCH, 2, struct.pack(">ii", -1, LONG_MS) + b"of a later version", version=12)
        consumer.write(fetch(1) + unknown)
        await proxy.broker.until_received([1, 2])
        assert fetch(1, max_wait_ms=SHORTEST_LOOK_MS) + unknown == bytes(proxy.broker.received)


async def test_the_broker_may_look_for_records_longer_the_longer_no_position_has_changed() -> None:
    async with proxied() as proxy:
        _, consumer = await proxy.connect()
        consumer.write(fetch(1))
        await proxy.broker.until_received([1])
        [connection] = proxy.connections
        connection._changed_at -= 600
        before = len(proxy.broker.received)
        consumer.write(fetch(2) + request(METADATA, 3, b""))
        await proxy.broker.until_received([1, 2, 3])
        looking = proxy.broker.received[before : before + len(fetch(2))]
        assert looking == fetch(2, max_wait_ms=struct.unpack_from(">i", looking, WAIT_AT)[0])
        assert struct.unpack_from(">i", looking, WAIT_AT)[0] >= 600_000 * LOOK_PER_QUIET


async def test_requests_and_responses_pass_unchanged_however_they_are_cut() -> None:
    async with proxied() as proxy:
        reader, producer = await proxy.connect()
        sent = request(PRODUCE, 1, bytes(range(256)) * 1_000) + request(PRODUCE, 2, b"x")
        for begin in range(0, len(sent), 9_973):
            producer.write(sent[begin : begin + 9_973])
            await producer.drain()
        await proxy.broker.until_received([1, 2])
        assert bytes(proxy.broker.received) == sent
        answers = struct.pack(">ii", 7, 1) + b"abc" + struct.pack(">ii", 5, 2) + b"d"
        for byte in answers:
            proxy.broker.writers[0].write(bytes([byte]))
            await proxy.broker.writers[0].drain()
        assert await reader.readexactly(len(answers)) == answers
        assert proxy.news.count == 2


async def test_a_fetch_that_comes_in_parts_is_one_fetch() -> None:
    async with proxied() as proxy:
        _, consumer = await proxy.connect()
        consumer.write(fetch(1)[:40])
        await until(lambda: bool(proxy.broker.received or (proxy.connections and proxy.connections[0]._received)))
        assert not proxy.broker.received
        consumer.write(fetch(1)[40:])
        await proxy.broker.until_received([1])
        assert bytes(proxy.broker.received) == fetch(1, max_wait_ms=SHORTEST_LOOK_MS)


async def test_a_fetch_that_names_more_than_it_holds_is_left_to_the_broker() -> None:
    most = struct.pack(">i", 2**31 - 1)
    cut_off = request(FETCH, 1, struct.pack(">iiiib", -1, LONG_MS, 1, 1024, 1) + most)
    of_one_topic = request(FETCH, 2, struct.pack(">iiiibih", -1, LONG_MS, 1, 1024, 1, 1, 6) + b"events" + most)
    async with proxied() as proxy:
        _, consumer = await proxy.connect()
        consumer.write(cut_off + of_one_topic)
        await proxy.broker.until_received([1, 2])
        assert bytes(proxy.broker.received) == cut_off + of_one_topic


@pytest.mark.parametrize(("size", "api_key"), [(-7, METADATA), (0, METADATA), (7, FETCH)])
async def test_a_client_that_does_not_speak_kafka_is_sent_away(size: int, api_key: int) -> None:
    async with proxied() as proxy:
        reader, client = await proxy.connect()
        client.write(struct.pack(">ihhi", size, api_key, 4, 1) + b"x" * 100)
        async with asyncio.timeout(SOON_S):
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        assert not proxy.broker.received


async def test_a_client_that_reads_slowly_holds_up_the_broker_and_loses_nothing() -> None:
    much = b"x" * 5_000_000
    async with proxied() as proxy:
        reader, consumer = await proxy.connect()
        consumer.write(fetch(1))
        await proxy.broker.until_received([1])
        [connection], [broker] = proxy.connections, proxy.broker.writers
        front, behind = connection._transport, connection.other._transport
        assert front is not None
        assert behind is not None
        for transport in (consumer, front, behind, broker):
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, 65_536)
        broker.write(struct.pack(">ii", 4 + len(much), 1) + much)
        draining = asyncio.create_task(broker.drain())
        await until(lambda: draining.done() or not behind.is_reading(), within_s=SOON_S)
        assert not draining.done()
        async with asyncio.timeout(SOON_S):
            assert (await reader.readexactly(8 + len(much)))[8:] == much
            await draining


async def test_a_broker_that_leaves_closes_the_connections_of_its_clients() -> None:
    async with proxied() as proxy:
        reader, consumer = await proxy.connect()
        consumer.write(request(METADATA, 1, b"") + fetch(2) + fetch(3))
        await proxy.until_waiting()
        await proxy.broker.until_received([1, 2])
        proxy.broker.answer(1)
        proxy.broker.writers[0].close()
        async with asyncio.timeout(SOON_S):
            assert await reader.read() == struct.pack(">ii", 4 + 3, 1) + b"..."
        await until(lambda: not proxy.news.waiting, within_s=SOON_S)


async def test_a_client_that_leaves_closes_its_connection_to_the_broker() -> None:
    async with proxied() as proxy:
        _, consumer = await proxy.connect()
        consumer.write(fetch(1) + fetch(2))
        await proxy.until_waiting()
        consumer.close()
        await until(proxy.broker.writers[0].is_closing, within_s=SOON_S)
        assert not proxy.news.waiting


async def test_a_client_that_is_newer_than_the_broker_asks_for_versions_again_as_an_older_one() -> None:
    async with proxied() as proxy:
        reader, client = await proxy.connect()
        newer = request(API_VERSIONS, 1, b"the id of the cluster, which is new in version 5", version=5)
        client.write(newer[:20])
        client.write(newer[20:])
        async with asyncio.timeout(SOON_S):
            answer = await reader.readexactly(4 + 16)
        # Correlation id, unsupported version, one kind of request, which is this one, in versions 0 to 4.
        assert struct.unpack(">iihihhh", answer) == (16, 1, 35, 1, API_VERSIONS, 0, 4)
        client.write(request(API_VERSIONS, 2, b"", version=4))
        await proxy.broker.until_received([2])
