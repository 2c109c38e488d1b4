import asyncio
from collections.abc import Sequence

import pytest

from kb_shared.concurrency.batch_writer import BatchWriter


async def test_an_item_that_can_not_be_written_fails_alone() -> None:
    written: list[str] = []
    calls: list[Sequence[str]] = []

    async def write(items: Sequence[str]) -> None:
        calls.append(items)
        if "unwritable" in items:
            raise ValueError("unwritable")
        written.extend(items)

    writer = BatchWriter(write)
    outcomes = await asyncio.gather(*map(writer, ("a", "unwritable", "b")), return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == ["None", "unwritable", "None"]
    assert written == ["a", "b"]
    assert calls[0] == ["a", "unwritable", "b"]


async def test_items_that_come_together_are_written_together() -> None:
    calls: list[Sequence[int]] = []

    async def write(items: Sequence[int]) -> None:
        calls.append(items)

    writer = BatchWriter(write)
    await asyncio.gather(*map(writer, range(250)))
    assert [len(items) for items in calls] == [100, 100, 50]


async def test_a_single_item_is_tried_once() -> None:
    calls: list[Sequence[int]] = []

    async def write(items: Sequence[int]) -> None:
        calls.append(items)
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        await BatchWriter(write)(1)
    assert calls == [[1]]
