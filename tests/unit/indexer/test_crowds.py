import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from kb_indexer.crowds import CROWDED_FROM, Crowds
from kb_shared.mongo import index_jobs


async def test_a_kb_is_counted_once_however_many_ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    open_jobs = {"crowded": CROWDED_FROM + 1, "quiet": CROWDED_FROM}
    counted: list[tuple[str, str]] = []

    async def count_open(_: Any, organization_id: str, kb_id: str, *, limit: int) -> int:
        counted.append((organization_id, kb_id))
        await asyncio.sleep(0)
        return min(open_jobs[kb_id], limit)

    monkeypatch.setattr(index_jobs, "count_open", count_open)
    asked = Crowds(Mock())
    answers = await asyncio.gather(*(asked.has("acme", kb_id) for kb_id in ("crowded", "quiet") * 20))
    assert answers == [True, False] * 20
    assert await asked.has("acme", "crowded")
    assert sorted(counted) == [("acme", "crowded"), ("acme", "quiet")]
