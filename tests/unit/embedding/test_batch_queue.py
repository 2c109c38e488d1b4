import asyncio
from collections.abc import Sequence

import numpy as np

from kb_shared.embedding.batch_queue import BatchQueue, Delivered, PendingText
from kb_shared.embedding.pace import MOST_NEARBY, Pace
from kb_shared.embedding.purchases import Purpose
from kb_shared.embedding.sub_batches import MAX_TEXTS

PURPOSE = Purpose("acme", None, "index", "document")


class Seller:
    """Sells one batch after the other, each when it is told to."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self._open = asyncio.Event()

    async def sell(self, batch: Sequence[PendingText]) -> None:
        self.asked.append([pending.text for pending in batch])
        await self._open.wait()
        for pending in batch:
            pending.delivery.set_result(Delivered(np.zeros(1, dtype=np.float32), charged=True))

    def open(self) -> None:
        self._open.set()


def pace_of_a_near_provider() -> Pace:
    pace = Pace(deadline_s=60)
    for _ in range(20):
        pace.answered(MAX_TEXTS, seconds=0.01)
    return pace


def add_texts(queue: BatchQueue, *texts: str) -> list[PendingText]:
    pending = [queue.add_text(text, text, PURPOSE, nano_usd=0)[0] for text in texts]
    queue.send()
    return pending


async def settled() -> None:
    """Let everything go on that does not wait for the seller."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_batch_that_is_full_goes_at_once_and_the_rest_waits_for_more() -> None:
    seller = Seller()
    queue = BatchQueue(seller.sell, pace=pace_of_a_near_provider(), patience_s=3600)
    add_texts(queue, *map(str, range(MAX_TEXTS + 20)))
    await settled()
    assert [len(batch) for batch in seller.asked] == [MAX_TEXTS]
    add_texts(queue, *(f"more {n}" for n in range(MAX_TEXTS - 20)))
    await settled()
    assert [len(batch) for batch in seller.asked] == [MAX_TEXTS, MAX_TEXTS]


async def test_a_batch_that_is_not_full_goes_when_its_patience_is_over() -> None:
    seller = Seller()
    queue = BatchQueue(seller.sell, pace=pace_of_a_near_provider(), patience_s=0.01)
    seller.open()
    pending = add_texts(queue, "a", "b")
    await asyncio.wait([each.delivery for each in pending])
    assert seller.asked == [["a", "b"]]


async def test_no_more_than_so_many_requests_are_under_way() -> None:
    seller = Seller()
    queue = BatchQueue(seller.sell, pace=pace_of_a_near_provider(), patience_s=0)
    pending = add_texts(queue, *map(str, range(MAX_TEXTS * (MOST_NEARBY + 3))))
    await settled()
    assert len(seller.asked) == MOST_NEARBY
    seller.open()
    await asyncio.wait([each.delivery for each in pending])
    assert len(seller.asked) == MOST_NEARBY + 3


async def test_a_text_that_two_want_is_asked_for_once() -> None:
    seller = Seller()
    queue = BatchQueue(seller.sell, pace=pace_of_a_near_provider(), patience_s=0)
    seller.open()
    first, second = add_texts(queue, "a", "b"), add_texts(queue, "b", "c")
    await asyncio.wait([each.delivery for each in [*first, *second]])
    assert sorted(text for batch in seller.asked for text in batch) == ["a", "b", "c"]


async def test_a_text_that_is_under_way_is_not_asked_for_again() -> None:
    seller = Seller()
    queue = BatchQueue(seller.sell, pace=pace_of_a_near_provider(), patience_s=0)
    add_texts(queue, *map(str, range(MAX_TEXTS)))
    await settled()
    pending, is_first = queue.add_text("0", "0", PURPOSE, nano_usd=0)
    assert not is_first
    seller.open()
    await asyncio.wait([pending.delivery])
    assert len(seller.asked) == 1


async def test_a_caller_that_leaves_removes_texts_that_are_not_sent_yet_and_that_no_other_wants() -> None:
    seller = Seller()
    queue = BatchQueue(seller.sell, pace=pace_of_a_near_provider(), patience_s=0.01)
    seller.open()
    leaving, staying = add_texts(queue, "left", "shared"), add_texts(queue, "shared", "kept")
    assert [queue.leave(each) for each in leaving] == [False, False]
    await asyncio.wait([each.delivery for each in staying])
    assert seller.asked == [["shared", "kept"]]


async def test_leaving_after_the_request_was_sent_returns_true() -> None:
    seller = Seller()
    queue = BatchQueue(seller.sell, pace=pace_of_a_near_provider(), patience_s=0)
    [pending] = add_texts(queue, "a")
    await settled()
    assert seller.asked == [["a"]]
    assert queue.leave(pending)
    assert not queue.idle
    seller.open()
    await queue.finish()
    assert queue.idle
