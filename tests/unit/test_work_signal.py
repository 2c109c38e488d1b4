import asyncio

import pytest

from kb_shared.concurrency import work_signal
from kb_shared.concurrency.work_signal import PollPause, WorkSignal

SHORTEST_S = 0.05
LONGEST_S = work_signal.LONGEST_IDLE_S
"""Longest delay of work whose signal is lost, as ADR 39 has it."""


class RecordedSignal(WorkSignal):
    """Records how long a task is willing to wait, and does not let it wait."""

    def __init__(self, *, is_reliable: bool) -> None:
        super().__init__(is_reliable=is_reliable)
        self.waits: list[float] = []

    async def wait(self, longest_s: float) -> bool:
        self.waits.append(longest_s)
        return await super().wait(0)


async def pause(pauses: PollPause, *, found: bool = False, poll_took_s: float = 0) -> None:
    await pauses.after_poll(found=found, poll_took_s=poll_took_s)


async def test_a_task_whose_signal_may_be_lost_polls_often_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_signal, "STAYS_AWAKE_S", 0)
    signal = RecordedSignal(is_reliable=False)
    pauses = PollPause(signal, shortest_s=SHORTEST_S)
    await pause(pauses)
    await pause(pauses)
    assert signal.waits == [SHORTEST_S, SHORTEST_S]


async def test_a_task_waits_long_when_it_has_found_nothing_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(work_signal, "monotonic", lambda: now)
    signal = RecordedSignal(is_reliable=True)
    pauses = PollPause(signal, shortest_s=SHORTEST_S)
    await pause(pauses)
    now += work_signal.STAYS_AWAKE_S + 1
    await pause(pauses)
    await pause(pauses, found=True)
    await pause(pauses)
    now += work_signal.STAYS_AWAKE_S + 1
    await pause(pauses)
    assert signal.waits == [SHORTEST_S, LONGEST_S, SHORTEST_S, SHORTEST_S, LONGEST_S]


async def test_a_task_that_is_woken_polls_often_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(work_signal, "monotonic", lambda: now)
    signal = RecordedSignal(is_reliable=True)
    pauses = PollPause(signal, shortest_s=SHORTEST_S)
    now += work_signal.STAYS_AWAKE_S + 1
    signal.wake()
    await pause(pauses)
    await pause(pauses)
    assert signal.waits == [LONGEST_S, SHORTEST_S]


async def test_slow_polls_make_the_pause_longer_though_there_is_work() -> None:
    signal = RecordedSignal(is_reliable=True)
    await pause(PollPause(signal, shortest_s=SHORTEST_S), found=True, poll_took_s=0.2)
    assert signal.waits == [pytest.approx(1.0)]


async def test_a_signal_ends_the_pause_of_the_task() -> None:
    signal = WorkSignal()
    waiting = asyncio.create_task(signal.wait(600))
    await asyncio.sleep(0)
    signal.wake()
    assert await waiting
    assert not await signal.wait(0)


async def test_a_signal_between_two_pauses_ends_the_next_one() -> None:
    signal = WorkSignal()
    signal.wake()
    assert await signal.wait(0)
    assert not await signal.wait(0)
