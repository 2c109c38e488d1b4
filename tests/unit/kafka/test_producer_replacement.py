"""A producer whose client is of no more use goes on with another one; the last copies of each key are in order."""

import asyncio
from typing import Any

import pytest
from aiokafka.errors import (
    InvalidProducerEpoch,
    KafkaError,
    LeaderNotAvailableError,
    OutOfOrderSequenceNumber,
    ProducerClosed,
    ProducerFenced,
    UnknownProducerId,
)

from kb_shared.errors import TransientError
from kb_shared.kafka.producer import Producer, ProducerMessage
from kb_shared.kafka_connection.connection import KafkaConnection
from tests.unit.kafka.scripted_clients import Clients, ScriptedClient
from tests.waiting import BRAKE_S, until

TOPIC = "t"


async def started(clients: Clients, **options: Any) -> tuple[Producer, ScriptedClient]:
    producer = Producer(KafkaConnection("nowhere:1"), idempotence=True, **options)
    await producer.start()
    return producer, clients.made[0]


def messages(*values: str) -> list[ProducerMessage]:
    """Return messages whose key is the first letter of the value."""
    return [ProducerMessage(TOPIC, value[:1].encode(), value.encode()) for value in values]


def sending(producer: Producer, *values: str) -> asyncio.Task[None]:
    return asyncio.create_task(producer.send_all(messages(*values)))


async def has(client: ScriptedClient, *values: str) -> None:
    await until(lambda: list(client.waiting) == list(values), what=f"a client that was given {values}")


@pytest.mark.parametrize(
    "error",
    [
        OutOfOrderSequenceNumber(),
        UnknownProducerId(),
        ProducerFenced(),
        InvalidProducerEpoch(),
        ProducerClosed(),
        KafkaError("Unexpected error during batch delivery"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_messages_that_a_broken_client_did_not_deliver_are_sent_again_in_order(
    clients: Clients, error: KafkaError
) -> None:
    producer, first = await started(clients)
    calls = [sending(producer, "a1", "b1", "a2")]
    await has(first, "a1", "b1", "a2")
    calls.append(sending(producer, "a3", "b2"))
    await has(first, "a1", "b1", "a2", "a3", "b2")
    first.acknowledge("a1")
    first.fail(error, "a2")  # a3, b1 and b2 are still under way
    second = await clients.next(2)
    await until(lambda: len(second.waiting) == 4)
    assert first.stopped
    assert [value for value in second.waiting if value[0] == "a"] == ["a2", "a3"]
    assert [value for value in second.waiting if value[0] == "b"] == ["b1", "b2"]
    second.acknowledge_all()
    await asyncio.gather(*calls)
    await producer.stop()


async def test_a_newer_message_waits_until_older_ones_of_its_key_are_sent_again(clients: Clients) -> None:
    clients.prepare = lambda client: setattr(client, "full", asyncio.Event() if clients.made else None)
    producer, first = await started(clients)
    calls = [sending(producer, "a1", "a2", "a3")]
    await has(first, "a1", "a2", "a3")
    first.fail(OutOfOrderSequenceNumber(), "a1")
    calls.append(sending(producer, "a4"))
    second = await clients.next(2)
    calls.append(sending(producer, "a5"))
    assert second.full is not None
    second.full.set()
    await until(lambda: len(second.waiting) == 5)
    second.acknowledge_all()
    await asyncio.gather(*calls)
    assert clients.log == ["a1", "a2", "a3", "a4", "a5"]
    await producer.stop()


async def test_a_call_that_waited_for_room_in_the_broken_client_goes_on_with_the_next(clients: Clients) -> None:
    producer, first = await started(clients)
    calls = [sending(producer, "a1")]
    await has(first, "a1")
    first.full = asyncio.Event()
    calls.append(sending(producer, "a2", "a3"))
    await asyncio.sleep(0)
    first.fail(OutOfOrderSequenceNumber(), "a1")
    second = await clients.next(2)
    first.full.set()
    await has(second, "a1", "a2", "a3")
    second.acknowledge_all()
    await asyncio.gather(*calls)
    await producer.stop()


async def test_a_second_client_that_breaks_is_replaced_as_well(clients: Clients) -> None:
    producer, first = await started(clients)
    call = sending(producer, "a1", "a2")
    await has(first, "a1", "a2")
    first.fail(OutOfOrderSequenceNumber(), "a1", "a2")
    second = await clients.next(2)
    await has(second, "a1", "a2")
    second.acknowledge("a1")
    second.fail(ProducerFenced(), "a2")
    third = await clients.next(3)
    await has(third, "a2")
    third.acknowledge_all()
    await call
    await producer.stop()


async def test_a_client_that_does_not_start_is_tried_again(clients: Clients) -> None:
    clients.prepare = lambda client: setattr(client, "fails_to_start", int(len(clients.made) in {1, 2}))
    producer, first = await started(clients)
    call = sending(producer, "a1")
    await has(first, "a1")
    first.fail(OutOfOrderSequenceNumber(), "a1")
    fourth = await clients.next(4)
    await has(fourth, "a1")
    fourth.acknowledge_all()
    await call
    await producer.stop()


async def test_a_transient_error_is_raised_and_the_client_is_kept(clients: Clients) -> None:
    producer, first = await started(clients)
    call = sending(producer, "a1")
    await has(first, "a1")
    first.fail(LeaderNotAvailableError(), "a1")
    with pytest.raises(TransientError, match="LeaderNotAvailableError"):
        await call
    assert not first.stopped
    await producer.stop()


async def test_a_message_whose_caller_left_is_not_sent_again(clients: Clients) -> None:
    producer, first = await started(clients)
    given_up, call = sending(producer, "a1"), sending(producer, "a2")
    await has(first, "a1", "a2")
    given_up.cancel()
    await asyncio.wait([given_up])
    first.fail(OutOfOrderSequenceNumber(), "a2")
    second = await clients.next(2)
    await has(second, "a2")
    second.acknowledge_all()
    await call
    await producer.stop()


async def test_stopping_ends_in_time_and_fails_waiting_calls(clients: Clients) -> None:
    producer, first = await started(clients, stop_timeout_s=0.1)
    call = sending(producer, "a1")
    await has(first, "a1")
    async with asyncio.timeout(BRAKE_S):
        await producer.stop()
    with pytest.raises(TransientError):
        await call
    with pytest.raises(TransientError, match="ProducerClosed"):
        await producer.send_all(messages("a2"))


async def test_stopping_ends_in_time_while_a_client_is_being_replaced(clients: Clients) -> None:
    clients.prepare = lambda client: setattr(client, "fails_to_start", 1 if clients.made else 0)
    producer, first = await started(clients, stop_timeout_s=0.1)
    call = sending(producer, "a1")
    await has(first, "a1")
    first.fail(OutOfOrderSequenceNumber(), "a1")
    waiting = sending(producer, "a2")
    await clients.next(2)
    async with asyncio.timeout(BRAKE_S):
        await producer.stop()
    for each in (call, waiting):
        with pytest.raises(TransientError):
            await each
