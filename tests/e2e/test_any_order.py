import random
from collections.abc import Callable, Sequence

import pytest

from kb_contracts.documents import DocumentEvent
from tests.chaos.workload import Upstream, paragraph
from tests.e2e.running_system import RunningSystem

SEED = 20
ORDERS = 7
"""Number of orders for each script: twenty and one."""

EventScript = Callable[[Upstream, str, Sequence[str]], list[DocumentEvent]]


def _lives(upstream: Upstream, document_id: str, tags: Sequence[str]) -> list[DocumentEvent]:
    here, there = tags
    return [
        upstream.ocr(document_id, _text(1, 2), tags=[here], revision=1, metadata={"stage": 1}),
        upstream.deleted(document_id, revision=2),
        upstream.tagged(document_id, there, revision=3),
        upstream.ocr(document_id, _text(2, 3, 4), tags=[here], revision=4),
        upstream.described(document_id, {"stage": 2}, revision=5),
        upstream.ocr(document_id, _text(4, 3), tags=[], revision=6),
        upstream.tagged(document_id, here, there, revision=7),
    ]


def _ends(upstream: Upstream, document_id: str, tags: Sequence[str]) -> list[DocumentEvent]:
    here, there = tags
    return [
        upstream.ocr(document_id, _text(1, 2), tags=[here], revision=1),
        upstream.tagged(document_id, here, there, revision=2),
        upstream.ocr(document_id, _text(2, 3), tags=[there], revision=3, metadata={"stage": 1}),
        upstream.deleted(document_id, revision=4),
    ]


def _waits(upstream: Upstream, document_id: str, tags: Sequence[str]) -> list[DocumentEvent]:
    here, there = tags
    return [
        upstream.ocr(document_id, _text(1, 2), tags=[here, there], revision=1),
        upstream.deleted(document_id, revision=2),
        upstream.described(document_id, {"stage": 1}, revision=3),
        upstream.tagged(document_id, there, revision=4),
    ]


def _text(*names: int) -> list[str]:
    return [paragraph(f"any order {name}") for name in names]


@pytest.mark.parametrize("script", [_lives, _ends, _waits])
async def test_any_order_of_the_same_events_ends_in_one_state(script: EventScript, running: RunningSystem) -> None:
    await _in_random_orders(running, script, orders=ORDERS, seed=SEED)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_many_orders_of_the_same_events_end_in_one_state(running: RunningSystem) -> None:
    await _in_random_orders(running, _lives, orders=500, seed=SEED + 1)


async def _in_random_orders(running: RunningSystem, script: EventScript, *, orders: int, seed: int) -> None:
    """Each order is lived by a document of its own; one event comes twice."""
    tags = await running.create_tags(2)
    kb_ids = [await running.create_knowledge_base(tag) for tag in tags]
    dice = random.Random(seed)
    document_ids = [f"order-{tags[0]}-{n}" for n in range(orders)]
    for document_id in document_ids:
        events = script(running.upstream, document_id, tags)
        events.append(dice.choice(events))
        dice.shuffle(events)
        await running.publish(*events)
    await running.assert_consistent()
    states = [await _state(running, document_id, kb_ids) for document_id in document_ids]
    assert states == [states[0]] * orders


async def _state(running: RunningSystem, document_id: str, kb_ids: Sequence[str]) -> object:
    database = running.system.database
    row = await database.documents.find_one({"document_id": document_id})
    assert row is not None
    facts = ("alive", "deleted_revision", "text_revision", "tags_revision", "tag_ids", "metadata_revision", "metadata")
    chunks = [
        [
            (chunk["chunk_index"], chunk["chunk_text"], chunk["tag_ids"], chunk["metadata_snapshot"])
            async for chunk in database[f"kb_vectors_{kb_id}"]
            .find({"document_id": document_id, "until": None})
            .sort("chunk_index")
        ]
        for kb_id in kb_ids
    ]
    return {fact: row[fact] for fact in facts}, chunks
