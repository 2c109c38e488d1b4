"""Spans of messages that are sent and of records that are handled, and the header that connects them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka.errors import MessageSizeTooLargeError

from kb_contracts.errors import Rejected
from kb_shared.errors import TransientError
from kb_shared.kafka.attempts import Attempts, InFlightRecord
from kb_shared.kafka.offsets import OffsetTracker
from kb_shared.kafka.producer import Producer, ProducerMessage
from kb_shared.kafka.record import OrderingKey, Record
from kb_shared.kafka_connection.connection import KafkaConnection
from kb_shared.observability import tracing
from tests.span_receiver import recording_spans
from tests.unit.kafka.fakes import FakeDeadLetters, FakeHandler

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RAW = (("traceparent", TRACEPARENT.encode()), ("x-mine", b"\xff"))


class KeptMessages:
    """Client that keeps the headers of what it acknowledges, and refuses what is large."""

    def __init__(self) -> None:
        self.headers: list[list[tuple[str, bytes]]] = []

    async def send(self, _topic: str, *, value: bytes, headers: list[tuple[str, bytes]], **_: Any) -> Any:
        if value == b"large":
            raise MessageSizeTooLargeError
        self.headers.append(headers)
        acknowledgement = asyncio.get_running_loop().create_future()
        acknowledgement.set_result(None)
        return acknowledgement


async def send(messages: Sequence[ProducerMessage]) -> list[list[tuple[str, bytes]]]:
    producer = Producer(KafkaConnection("nowhere:1"), idempotence=False)
    producer._client = client = KeptMessages()
    await producer.send_each(messages)
    return client.headers


def message(value: bytes = b"v") -> ProducerMessage:
    return ProducerMessage("t", b"k", value, {"content-type": "x", "traceparent": TRACEPARENT})


def job(*headers: tuple[str, bytes]) -> InFlightRecord:
    return InFlightRecord(Record("t", 2, 7, b"a/1", b"v", headers, 0), OrderingKey("a", "a", "1"), OffsetTracker(0))


async def test_a_message_names_the_span_that_sent_it_as_the_parent_of_what_handles_it() -> None:
    with recording_spans() as ended:
        [headers] = await send([message()])
        await Attempts(FakeHandler(), FakeDeadLetters()).attempt(job(*headers))
    sent, handled = ended
    assert dict(headers) == {"content-type": b"x", "traceparent": sent.traceparent.encode()}
    assert (sent.name, sent.kind, sent.parent_id) == ("send t", "producer", "b7ad6b7169203331")
    assert (handled.name, handled.kind, handled.parent_id) == ("process t", "consumer", sent.span_id)
    assert handled.trace_id == sent.trace_id == tracing.trace_id_of(TRACEPARENT)
    assert handled.attributes["messaging.destination.partition.id"] == "2"
    assert (handled.attributes["messaging.kafka.offset"], handled.attributes["kb.outcome"]) == (7, "handled")


async def test_the_headers_of_a_record_that_is_sent_again_stay_as_they_were() -> None:
    with recording_spans() as ended:
        assert await send([ProducerMessage("t", b"k", b"v", RAW)]) == [list(RAW)]
    assert ended == []


async def test_without_an_export_the_header_of_a_message_is_that_of_its_cause() -> None:
    [headers] = await send([message()])
    assert dict(headers)["traceparent"] == TRACEPARENT.encode()


async def test_of_several_messages_the_span_of_the_one_that_was_refused_has_failed() -> None:
    with recording_spans() as ended:
        await send([message(), message(b"large"), message()])
    assert [(span.has_failed, span.attributes.get("error.type")) for span in ended] == [
        (False, None),
        (True, "MessageRefused"),
        (False, None),
    ]


async def test_each_attempt_is_a_span_with_its_outcome() -> None:
    errors = [TransientError("later"), Rejected("not_json", "line 1 column 1")]

    async def effect(_: Record) -> None:
        raise errors.pop(0)

    attempts, item = Attempts(FakeHandler(effect), FakeDeadLetters()), job()
    with recording_spans() as ended:
        while await attempts.attempt(item) is not None:
            pass
    assert [(span.attributes["kb.outcome"], span.attributes.get("error.type")) for span in ended] == [
        ("retried", "TransientError"),
        ("refused", "Rejected"),
        ("dead_lettered", None),
    ]
    assert [span.has_failed for span in ended] == [True, True, False]


async def test_work_that_is_cancelled_has_not_failed() -> None:
    async def hang(_: Record) -> None:
        await asyncio.Event().wait()

    with recording_spans() as ended:
        task = asyncio.create_task(_handle(Attempts(FakeHandler(hang), FakeDeadLetters())))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    [span] = ended
    assert (span.attributes["error.type"], span.has_failed) == ("CancelledError", False)


async def _handle(attempts: Attempts) -> None:
    await attempts.attempt(job())
