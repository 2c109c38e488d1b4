import asyncio
import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from kb_shared.errors import InfrastructureNotReady, TransientError
from kb_shared.service import process
from tests.waiting import DEADLINE_S, until

SERVICE = """
import gc
from kb_shared.service import process

async def serve(stop):
    print(gc.get_freeze_count() > len(gc.get_objects()))

process.run(serve)
"""


def test_imported_modules_are_excluded_from_garbage_collection() -> None:
    service = subprocess.run([sys.executable, "-c", SERVICE], capture_output=True, text=True, check=True)
    assert service.stdout == "True\n"


async def test_a_start_waits_for_what_is_away_or_set_up_wrongly_and_says_each_reason_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_RETRY_S", 0.01)
    answers = [
        InfrastructureNotReady("topic a is missing"),
        InfrastructureNotReady("topic a is missing"),
        TransientError("away"),
    ]
    reasons: list[str] = []

    async def prepare() -> None:
        if answers:
            raise answers.pop(0)

    with capture_logs() as logs:
        assert await process.retry_until_done(asyncio.Event(), prepare, note=reasons.append)
    assert reasons == ["topic a is missing", "topic a is missing", "away"]
    assert [line["reason"] for line in logs] == ["topic a is missing", "away"]


async def test_a_stop_ends_a_start_at_once_although_what_it_waits_for_does_not_answer() -> None:
    stop, asked, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def prepare() -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    starting = asyncio.create_task(process.retry_until_done(stop, prepare))
    await until(asked.is_set)
    stop.set()
    async with asyncio.timeout(DEADLINE_S):
        assert not await starting
    assert left.is_set()
