"""Records as other producers, brokers and disks make them, on the topics of a whole system."""

import random

from kb_contracts import topics
from kb_contracts.cloudevents import encode
from kb_contracts.documents import DocumentEvent
from tests.chaos.oracle import read_body
from tests.chaos.quiescence import until_quiescent
from tests.chaos.workload import paragraph
from tests.e2e.kafka_log import ConsumedMessage
from tests.e2e.running_system import RunningSystem
from tests.integration.kafka.raw_producer import RawProducer, raw_producer
from tests.integration.kafka.support import ON_KAFKA
from tests.record_batches import (
    CODECS,
    CRC_AT,
    DAMAGES,
    ON_ANY_BROKER,
    Rec,
    build_batch,
    flip,
    set_codec,
    with_checksum,
)
from tests.waiting import until

REASON = "unreadable-record"
TOPICS = (topics.DOCUMENT_EVENTS, topics.INDEX_REQUESTS, topics.INDEX_BACKFILL)


def wrap_oddly(event: DocumentEvent) -> list[bytearray]:
    """Return batches with an event that is in order, as other producers write them."""
    value = encode(event, source="/tests/upstream")
    key = f"{event.organization_id}/{event.document_id}".encode()
    headers = [("traceparent", None), ("x-redriven-from", None), ("", b""), ("ü", b"\xff"), ("x", None), ("x", b"1")]
    name_of_bytes = build_batch([Rec(key, value, [("x-my-name", b"x")])])
    at = name_of_bytes.index(b"x-my-name")
    name_of_bytes[at : at + 4] = b"\xff\xfe\x80\xc0"
    # Apache Kafka refuses a time in the future.
    times = (0, 1_767_225_600, 1 if ON_KAFKA else 2**62)
    return [
        *(build_batch([Rec(key, value, headers, timestamp)], codec="none") for timestamp in times),
        *(build_batch([Rec(key, value, headers)] * 2, codec=codec) for codec in CODECS),
        build_batch([Rec(key, value, [(f"h{n}", None) for n in range(1_000)])]),
        with_checksum(name_of_bytes),
    ]


async def write_damaged(running: RunningSystem, raw: RawProducer, choose: random.Random) -> int:
    """Write damaged batches to all partitions; return how many of them can't be read for sure."""
    unreadable = 0
    for topic in TOPICS:
        for partition in range(topic.partitions):
            name = running.system.kafka.prefix + topic.name
            batch = build_batch([Rec(value=b"damaged " * 50)] * 3, codec=choose.choice(list(CODECS)))
            await raw.write(name, partition, DAMAGES[choose.choice(ON_ANY_BROKER)](batch, choose))
            # What is not as it was written, and what is, but is no record.
            for damaged in (flip(build_batch([Rec()] * 2), CRC_AT), set_codec(build_batch([Rec()]), CODECS["zstd"])):
                unreadable += await raw.write(name, partition, damaged) is not None
    return unreadable


async def test_no_record_holds_up_the_documents_behind_it(running: RunningSystem) -> None:
    (tag,) = await running.create_tags(1)
    kb_id = await running.create_knowledge_base(tag)
    before = await read_letters(running)
    topic_name = running.system.kafka.prefix + topics.DOCUMENT_EVENTS.name
    events = [running.upstream.ocr(f"wrapped-{n}-{tag}", [paragraph(f"{n} {tag}")], tags=[tag]) for n in range(10)]
    async with raw_producer(running.system.kafka.connection) as raw:
        unreadable = await write_damaged(running, raw, random.Random(tag))
        for number, event in enumerate(events):
            running.oracle.record_published(event)
            wrapped = wrap_oddly(event)
            await raw.write_surely(topic_name, number % topics.DOCUMENT_EVENTS.partitions, wrapped[number])
        assert len(wrapped) == len(events)
    plain = running.upstream.ocr(f"plain-{tag}", [paragraph(tag)], tags=[tag])
    await running.publish(plain)
    document_ids = [event.document_id for event in (*events, plain)]
    await running.system.until_found(kb_id, document_ids)

    async def all_are_set_aside() -> bool:
        return await running.system.database.dead_letters.count_documents({"reason": REASON}) >= unreadable

    await until(all_are_set_aside, what=f"{unreadable} dead letters")
    await until_quiescent(running.system)
    letters = [letter for letter in await read_letters(running) if letter not in before]
    assert not [letter for letter in letters if any(each.encode() in (letter.key or b"") for each in document_ids)]
    running.oracle.malformed += [await read_body(running.system, letter) for letter in letters]
    await running.assert_consistent()


async def read_letters(running: RunningSystem) -> list[ConsumedMessage]:
    return await running.system.kafka.read(topics.DEAD_LETTERS)
