import asyncio
import contextvars
from collections.abc import Mapping, Sequence

import pytest

from kb_indexer.consumer.shared_handling import SharedHandling
from tests.waiting import until


async def test_items_of_one_key_that_come_together_are_handled_in_one_call_and_each_has_its_own_outcome() -> None:
    calls: list[list[str]] = []

    async def handle(items: Sequence[str]) -> Mapping[str, Exception]:
        calls.append([*items])
        return {item: ValueError(item) for item in items if item.startswith("bad")}

    together: SharedHandling[str, str] = SharedHandling(handle)
    outcomes = await asyncio.gather(
        *(together(item[-1], item) for item in ("good 1", "bad 1", "good 1", "good 2")), return_exceptions=True
    )
    assert sorted(calls) == [["good 1", "bad 1", "good 1"], ["good 2"]]
    assert [str(outcome) for outcome in outcomes] == ["None", "bad 1", "None", "None"]


async def test_an_item_that_comes_while_others_are_handled_is_not_among_them() -> None:
    begun, go_on = list[Sequence[str]](), asyncio.Event()

    async def handle(items: Sequence[str]) -> Mapping[str, Exception]:
        begun.append(items)
        await go_on.wait()
        return {}

    together: SharedHandling[str, str] = SharedHandling(handle)
    first = asyncio.create_task(together("k", "first"))
    await until(lambda: begun == [["first"]])
    late = asyncio.create_task(together("k", "late"))
    await until(lambda: begun == [["first"], ["late"]])
    assert not any(call.done() for call in (first, late))
    go_on.set()
    await asyncio.gather(first, late)


@pytest.mark.parametrize("error", [OSError("away"), asyncio.CancelledError()])
async def test_what_the_handling_raises_reaches_all_who_wait_for_it(error: BaseException) -> None:
    async def handle(items: Sequence[str]) -> Mapping[str, Exception]:
        raise error

    together: SharedHandling[str, str] = SharedHandling(handle)
    outcomes = await asyncio.gather(together("k", "a"), together("k", "b"), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(error)] * 2


async def test_a_caller_that_is_cancelled_does_not_disturb_the_others() -> None:
    go_on, handled = asyncio.Event(), list[Sequence[str]]()

    async def handle(items: Sequence[str]) -> Mapping[str, Exception]:
        await go_on.wait()
        handled.append(items)
        return {}

    together: SharedHandling[str, str] = SharedHandling(handle)
    leaving, staying = (asyncio.create_task(together("k", name)) for name in ("leaving", "staying"))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    go_on.set()
    await staying
    assert handled == [["leaving", "staying"]]


async def test_the_handling_belongs_to_the_trace_of_the_newest_item() -> None:
    trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace")
    seen: list[str] = []

    async def handle(items: Sequence[str]) -> Mapping[str, Exception]:
        seen.append(trace.get())
        return {}

    together: SharedHandling[str, str] = SharedHandling(handle)

    async def call(name: str) -> None:
        trace.set(name)
        await together("k", name)

    await asyncio.gather(call("older"), call("newest"))
    assert seen == ["newest"]
