import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from kb_indexer.consumer.backlog import Backlog
from kb_shared.mongo import index_jobs
from kb_shared.mongo.index_jobs import LANE_LIMITS
from kb_shared.mongo.keys import KnowledgeBaseKey

BUSY, QUIET = KnowledgeBaseKey("acme", "busy"), KnowledgeBaseKey("acme", "quiet")


class ScriptedCounts:
    """Counts of open jobs of KBs, and of jobs of organizations in the lanes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, of_kb: dict[str, int], of_organization: int = 0) -> None:
        self.asked: list[str] = []

        async def count_open(_: Any, key: KnowledgeBaseKey, *, limit: int) -> int:
            self.asked.append(key.kb_id)
            await asyncio.sleep(0)
            return min(of_kb[key.kb_id], limit)

        async def count_in_lanes(_: Any, organization_id: str, *, limit: int) -> int:
            self.asked.append(organization_id)
            await asyncio.sleep(0)
            return min(of_organization, limit)

        monkeypatch.setattr(index_jobs, "count_open", count_open)
        monkeypatch.setattr(index_jobs, "count_in_lanes", count_in_lanes)


async def test_a_kb_is_counted_once_however_many_ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = ScriptedCounts(monkeypatch, of_kb={"busy": LANE_LIMITS.of_kb, "quiet": 0})
    backlog = Backlog(Mock())
    answers = await asyncio.gather(*(backlog.is_long(kb) for kb in (BUSY, QUIET) * 20))
    assert answers == [True, False] * 20
    assert await backlog.is_long(BUSY)
    assert sorted(counted.asked) == ["acme", "busy", "quiet"]


async def test_jobs_since_the_last_count_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ScriptedCounts(monkeypatch, of_kb={"busy": LANE_LIMITS.of_kb - 3})
    backlog = Backlog(Mock())
    assert [await backlog.is_long(BUSY) for _ in range(5)] == [False] * 3 + [True] * 2


async def test_the_knowledge_bases_of_an_organization_share_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    ScriptedCounts(monkeypatch, of_kb={"busy": 0, "quiet": 0}, of_organization=LANE_LIMITS.of_organization - 3)
    backlog = Backlog(Mock())
    answers = [await backlog.is_long(kb) for kb in (BUSY, QUIET, BUSY, QUIET, BUSY)]
    assert answers == [False] * 3 + [True] * 2
