"""What an upstream of one organization can write to Kafka."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final
from uuid import uuid4

import psutil

from kb_client.events import EventPublisher
from kb_contracts.cloudevents import encode
from kb_contracts.documents import key_of
from kb_contracts.topics import DEAD_LETTERS, DOCUMENT_EVENTS
from kb_local.stack import Stack
from kb_shared.kafka_connection.clients import producer_client
from tests.chaos.workload import Upstream, paragraph
from tests.e2e.kafka_log import KafkaLog
from tests.noisy_neighbour.attack_check import AttackCheck, Tally
from tests.noisy_neighbour.flood import PAUSE_S
from tests.noisy_neighbour.measured_tenant import MeasuredTenant
from tests.noisy_neighbour.neighbourhood import Neighbourhood
from tests.waiting import until

WAVE: Final = 40
"""Events of documents in each pause of an attacker: 200 a second."""
FORGED_WAVE: Final = 10
"""Forged records in each pause: each becomes a dead letter, and all of these are read in the end."""
DOCUMENTS: Final = 400
"""Number of documents of the attacker, each changed again and again."""


async def test_very_many_events_of_one_organization_do_not_slow_down_another(attack_check: AttackCheck) -> None:
    attacker, tag_id = attack_check.neighbourhood.attacker, f"flooded-{uuid4().hex[:8]}"
    kb_id = await attacker.create_knowledge_base(tag_id)
    upstream = Upstream(attacker.organization_id)

    async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
        async with _publisher(neighbourhood.stack) as publisher:
            for number in count():
                names = [str((number * WAVE + each) % DOCUMENTS) for each in range(WAVE)]
                texts = [paragraph(f"{name} in wave {number}") for name in names]
                await publisher.publish_all(
                    [
                        upstream.ocr(f"flood-{name}", [text], tags=[tag_id], revision=number)
                        for name, text in zip(names, texts, strict=True)
                    ]
                )
                tally["published"] += WAVE
                await asyncio.sleep(PAUSE_S)

    await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["published"] > 0)
    await attacker.delete_knowledge_base(kb_id)


async def test_records_under_foreign_keys_are_dead_letters_and_do_not_slow_down_another_organization(
    attack_check: AttackCheck, measured: MeasuredTenant
) -> None:
    forged_id = f"forged-{uuid4().hex[:8]}"
    log = KafkaLog(attack_check.neighbourhood.stack.kafka_connection, attack_check.neighbourhood.stack.topic_prefix)
    before = await _mismatched(log)

    async def attack(neighbourhood: Neighbourhood, tally: Tally) -> None:
        victim = Upstream(neighbourhood.measured.organization_id)
        forged = victim.ocr(forged_id, [paragraph(forged_id)], tags=[measured.tag_id])
        value = encode(forged, source="/tests/attacker")
        async with _producer(neighbourhood.stack) as producer:
            for number in count():
                # In the line of the one whose data it is, and in the attacker's own.
                keys = [
                    f"{organization.organization_id}/{number}-{each}".encode()
                    for organization in (neighbourhood.measured, neighbourhood.attacker)
                    for each in range(FORGED_WAVE // 2)
                ]
                topic = neighbourhood.stack.topic_prefix + DOCUMENT_EVENTS.name
                sent = [await producer.send(topic, key=key, value=value) for key in keys]
                await asyncio.gather(*sent)
                tally["sent"] += len(sent)
                assert key_of(forged) not in keys
                await asyncio.sleep(PAUSE_S)

    tally = await attack_check.assert_unaffected(attack, has_taken_place=lambda tally: tally["sent"] > 0)

    async def are_all_refused() -> bool:
        return await _mismatched(log) - before >= tally["sent"]

    await until(are_all_refused, every_s=0.5)
    async with attack_check.neighbourhood.measured.kb_api() as http:
        assert (await http.get(f"/documents/{forged_id}")).status_code == 404


async def test_the_indexer_leaves_the_cores_to_searches_and_requests(neighbourhood: Neighbourhood) -> None:
    services = neighbourhood.stack.services
    pids = [services[name].pid for name in ("kb_indexer", "kb_search", "kb_api")]
    indexer, *others = (psutil.Process(pid).nice() for pid in pids)
    assert all(indexer > other for other in others)
    if sys.platform == "linux":
        assert [os.sched_getscheduler(pid) for pid in pids] == [os.SCHED_BATCH, os.SCHED_OTHER, os.SCHED_OTHER]


async def _mismatched(log: KafkaLog) -> int:
    letters = await log.read(DEAD_LETTERS)
    return sum("key-mismatch" in letter.headers.values() for letter in letters)


def _publisher(stack: Stack) -> EventPublisher:
    return EventPublisher(
        stack.kafka_connection,
        source="/tests/attacker",
        topic_prefix=stack.topic_prefix,
        # The local broker has none.
        idempotence=stack.broker is None,
    )


@asynccontextmanager
async def _producer(stack: Stack) -> AsyncIterator[Any]:
    """Open a producer that sends whatever it is given."""
    producer = producer_client(stack.kafka_connection, acks="all")
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()
