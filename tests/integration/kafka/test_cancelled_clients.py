"""A service may end, or give up waiting, while one of its Kafka clients connects or closes."""

import asyncio
import gc
from contextlib import suppress

from kb_local.broker import Broker
from kb_shared.kafka_connection.clients import admin_client
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.conftest import KafkaCluster
from tests.waiting import BRAKE_S


async def test_a_client_that_is_cancelled_at_any_step_of_its_start_closes_its_connections(
    broker: KafkaCluster | Broker,
) -> None:
    completed, steps = False, 0
    while not completed:
        client = admin_client(KafkaConnection(broker.bootstrap))
        start = asyncio.ensure_future(client.start())
        for _ in range(steps):
            await asyncio.sleep(0)
        completed = start.done()
        start.cancel()
        with suppress(asyncio.CancelledError):
            await start
        await client.close()
        steps += 1
    del client, start
    # A connection that is left open warns when it is collected, and pytest fails the test.
    gc.collect()
    assert steps > 10, "a start awaits several answers"


async def test_a_task_that_is_cancelled_at_any_step_of_closing_a_client_ends(broker: KafkaCluster | Broker) -> None:
    completed, steps = False, 0
    while not completed:
        client = admin_client(KafkaConnection(broker.bootstrap))
        await client.start()
        close = asyncio.ensure_future(client.close())
        for _ in range(steps):
            await asyncio.sleep(0)
        completed = close.done()
        close.cancel()
        await asyncio.wait([close])
        assert completed or close.cancelled(), f"the cancellation at step {steps} was lost"
        steps += 1
    assert steps > 2, "closing awaits a task and the connections"


async def test_the_cancellation_of_a_start_does_not_wait_for_a_frozen_broker() -> None:
    connected, closed = asyncio.Event(), asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        writer.close()
        closed.set()

    async with await asyncio.start_server(never_answer, "127.0.0.1", 0) as server:
        client = admin_client(KafkaConnection(f"127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        start = asyncio.ensure_future(client.start())
        await connected.wait()
        start.cancel()
        async with asyncio.timeout(BRAKE_S):
            await asyncio.wait([start])
        assert start.cancelled()
        await client.close()
        await closed.wait()
