import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from kb_indexer.consumer.backlog import Backlog
from kb_shared.mongo import index_jobs
from kb_shared.mongo.index_jobs import BACKLOG_LIMIT
from kb_shared.mongo.keys import KnowledgeBaseKey


async def test_a_kb_is_counted_once_however_many_ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    open_jobs = {"busy": BACKLOG_LIMIT + 1, "quiet": BACKLOG_LIMIT}
    counted: list[KnowledgeBaseKey] = []

    async def count_open(_: Any, key: KnowledgeBaseKey, *, limit: int) -> int:
        counted.append(key)
        await asyncio.sleep(0)
        return min(open_jobs[key.kb_id], limit)

    monkeypatch.setattr(index_jobs, "count_open", count_open)
    busy, quiet = KnowledgeBaseKey("acme", "busy"), KnowledgeBaseKey("acme", "quiet")
    asked = Backlog(Mock())
    answers = await asyncio.gather(*(asked.is_long(kb) for kb in (busy, quiet) * 20))
    assert answers == [True, False] * 20
    assert await asked.is_long(busy)
    assert counted == [busy, quiet]
