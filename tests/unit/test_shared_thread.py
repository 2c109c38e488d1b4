"""Work beside the event loop, in which organizations take turns."""

import asyncio
import threading
from time import perf_counter, thread_time

from kb_shared.concurrency.shared_thread import SharedThread
from tests.waiting import until

SHARE = 0.25


async def test_an_organization_with_much_work_does_not_keep_others_waiting() -> None:
    thread, done, may_begin = SharedThread("test", share_of=lambda _: SHARE), list[str](), threading.Event()

    async def work(organization_id: str, name: str) -> None:
        def do() -> None:
            may_begin.wait()
            done.append(name)

        await thread.work(organization_id, do)

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(work("busy", f"busy {number}"))
        await asyncio.sleep(0)
        group.create_task(work("other", "other"))
        await asyncio.sleep(0)
        may_begin.set()
    assert done[:2] == ["busy 0", "other"]
    assert len(done) == 6


async def test_an_organization_has_a_share_of_the_threads_time() -> None:
    thread, begun_at, worked = SharedThread("test", share_of=lambda _: SHARE), list[float](), list[float]()

    def do() -> None:
        begun_at.append(perf_counter())
        begun = thread_time()
        while thread_time() < begun + 0.05:
            pass
        worked.append(thread_time() - begun)

    await asyncio.gather(*(thread.work("busy", do) for _ in range(3)))
    assert sum(worked[:-1]) <= (begun_at[-1] - begun_at[0]) * SHARE * 1.1


async def test_a_failure_is_raised_and_the_next_task_has_its_turn() -> None:
    thread = SharedThread("test", share_of=lambda _: SHARE)

    def fail() -> None:
        raise ValueError("it fails")

    failed = await asyncio.gather(*(thread.work("org", fail) for _ in range(2)), return_exceptions=True)
    assert [str(each) for each in failed] == ["it fails"] * 2


async def test_a_caller_who_leaves_gives_the_turn_back() -> None:
    thread, may_end, begun = SharedThread("test", share_of=lambda _: SHARE), threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        may_end.wait()

    leaving = asyncio.ensure_future(thread.work("org", wait))
    await until(begun.is_set)
    leaving.cancel()
    next_one = asyncio.ensure_future(thread.work("org", lambda: "done"))
    may_end.set()
    assert await next_one == "done"
