import asyncio
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from kb_contracts.errors import Rejected
from kb_shared import failpoints
from kb_shared.errors import DocumentUnfit, Parked, TransientError
from kb_shared.kafka.attempts import Attempts, InFlightRecord, TryAgain
from kb_shared.kafka.offsets import OffsetTracker
from kb_shared.kafka.record import OrderingKey
from tests.unit.kafka.fakes import FakeDeadLetters, FakeHandler, record


def a_job() -> InFlightRecord:
    return InFlightRecord(record(0), OrderingKey("a", "a", "1"), OffsetTracker(0))


def raising(error: BaseException) -> FakeHandler:
    async def effect(_record: object) -> None:
        raise error

    return FakeHandler(effect)


async def outcomes(item: InFlightRecord, handler: FakeHandler, dead_letters: FakeDeadLetters) -> list[TryAgain | None]:
    """Everything that trying to the end, but at most 20 times, gives."""
    attempts = Attempts(handler, dead_letters)
    seen = []
    for _ in range(20):
        seen.append(await attempts.attempt(item))
        if seen[-1] is None:
            break
    return seen


async def test_a_handled_record_is_done_with() -> None:
    handler, dead_letters = FakeHandler(), FakeDeadLetters()
    assert await outcomes(a_job(), handler, dead_letters) == [None]
    assert handler.handled == [0]
    assert dead_letters.letters == []


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"none", b"00-" + b"0" * 100_000])
async def test_a_record_is_handled_whatever_its_traceparent_is(value: bytes | None) -> None:
    handler = FakeHandler()
    headers = (("traceparent", value), ("other", None), ("traceparent", value))
    item = InFlightRecord(replace(record(0), headers=headers), OrderingKey("a", "a", "1"), OffsetTracker(0))
    assert await outcomes(item, handler, FakeDeadLetters()) == [None]
    assert handler.handled == [0]


async def test_a_trace_that_can_not_be_read_does_not_end_the_consumer() -> None:
    handler = FakeHandler()
    headers: Any = [("traceparent", 7)]
    item = InFlightRecord(replace(record(0), headers=headers), OrderingKey("a", "a", "1"), OffsetTracker(0))
    assert await outcomes(item, handler, FakeDeadLetters()) == [None]
    assert handler.handled == [0]


async def test_an_unusable_record_goes_to_the_dead_letters_with_its_reason() -> None:
    dead_letters = FakeDeadLetters()
    handler = raising(Rejected("not_json", "line 1 column 1"))
    assert (await outcomes(a_job(), handler, dead_letters))[-1] is None
    assert handler.tried == [0]
    assert dead_letters.letters == [(0, "not_json", "line 1 column 1")]


async def test_a_transient_failure_is_tried_again_for_as_long_as_it_takes() -> None:
    dead_letters = FakeDeadLetters()
    seen = await outcomes(a_job(), raising(TransientError("MongoDB is electing")), dead_letters)
    assert len(seen) == 20
    assert all(isinstance(outcome, TryAgain) for outcome in seen)
    assert dead_letters.letters == []


@pytest.mark.parametrize(
    "error",
    [TransientError("busy", retry_after_s=42), Parked("no quota", error_type="provider_quota", retry_after_s=42)],
)
async def test_retry_after_is_honoured(error: TransientError | Parked) -> None:
    seen = await Attempts(raising(error), FakeDeadLetters()).attempt(a_job())
    assert seen is not None
    assert seen.pause_s >= 42


async def test_a_bug_is_tried_three_times_and_its_text_reaches_neither_letters_nor_logs() -> None:
    dead_letters = FakeDeadLetters()
    handler = raising(ZeroDivisionError("the text of a secret document"))
    with capture_logs() as logs:
        assert (await outcomes(a_job(), handler, dead_letters))[-1] is None
    assert handler.tried == [0, 0, 0]
    assert dead_letters.letters == [(0, "internal_error", "ZeroDivisionError")]
    printed = [{name: value for name, value in entry.items() if name != "exc_info"} for entry in logs]
    assert "secret" not in str(printed)


async def test_trying_a_permanent_failure_again_is_spared() -> None:
    dead_letters = FakeDeadLetters()
    handler = raising(DocumentUnfit("too many chunks"))
    await outcomes(a_job(), handler, dead_letters)
    assert handler.tried == [0]
    assert dead_letters.letters == [(0, "permanent_error", "DocumentUnfit")]


async def test_a_record_is_not_done_with_before_the_dead_letters_have_it() -> None:
    dead_letters = FakeDeadLetters(failures=8)
    handler = raising(Rejected("not_json", ""))
    seen = await outcomes(a_job(), handler, dead_letters)
    assert len(seen) == 10
    assert handler.tried == [0]
    assert len(dead_letters.letters) == 1


async def test_a_cancellation_that_was_not_requested_is_a_bug_of_the_handler() -> None:
    dead_letters = FakeDeadLetters()
    assert (await outcomes(a_job(), raising(asyncio.CancelledError()), dead_letters))[-1] is None
    assert dead_letters.letters == [(0, "internal_error", "CancelledError")]


async def test_a_cancelled_attempt_leaves_the_record_open() -> None:
    started = asyncio.Event()

    async def hang(_record: object) -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(Attempts(FakeHandler(hang), FakeDeadLetters()).attempt(a_job()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_process_can_be_made_to_die_between_the_effect_and_its_mark() -> None:
    handler = FakeHandler()

    async def look() -> None:
        assert handler.handled == [0]
        raise InterruptedError

    async with failpoints.during("consumer.after_handle", look):
        with pytest.raises(InterruptedError):
            await Attempts(handler, FakeDeadLetters()).attempt(a_job())
