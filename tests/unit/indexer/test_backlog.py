import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from kb_indexer.backlog import Backlog
from kb_shared.mongo import index_jobs
from kb_shared.mongo.index_jobs import BACKLOG_LIMIT


async def test_a_kb_is_counted_once_however_many_ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    open_jobs = {"busy": BACKLOG_LIMIT + 1, "quiet": BACKLOG_LIMIT}
    counted: list[tuple[str, str]] = []

    async def count_open(_: Any, organization_id: str, kb_id: str, *, limit: int) -> int:
        counted.append((organization_id, kb_id))
        await asyncio.sleep(0)
        return min(open_jobs[kb_id], limit)

    monkeypatch.setattr(index_jobs, "count_open", count_open)
    asked = Backlog(Mock())
    answers = await asyncio.gather(*(asked.is_long("acme", kb_id) for kb_id in ("busy", "quiet") * 20))
    assert answers == [True, False] * 20
    assert await asked.is_long("acme", "busy")
    assert sorted(counted) == [("acme", "busy"), ("acme", "quiet")]
