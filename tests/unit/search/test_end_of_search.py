"""kb-search ends after the runs that it has begun."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette

from kb_search import __main__ as program
from kb_search.settings import SearchSettings
from kb_shared.http import server
from kb_shared.observability import logs


async def test_a_run_that_has_begun_has_time_for_all_that_it_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    graces: list[float] = []

    @asynccontextmanager
    async def build(*_: Any) -> AsyncIterator[Starlette]:
        yield Starlette()

    async def run(*_: Any, grace_s: float) -> None:
        graces.append(grace_s)

    monkeypatch.setattr(program, "build", build)
    monkeypatch.setattr(server, "run", run)
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    monkeypatch.setenv("KB_RUN_MAX_SECONDS", "300")
    await program.serve(asyncio.Event())
    [grace_s] = graces
    assert grace_s > SearchSettings().run_max_seconds == 300
