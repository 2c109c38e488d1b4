import asyncio
from collections.abc import Mapping, Sequence
from unittest.mock import Mock

import pytest

from kb_search.retrieval import optimistic_read
from kb_search.retrieval.knowledge_base_cache import KnowledgeBaseCache
from kb_search.retrieval.optimistic_read import OptimisticRead
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.waiting import BRAKE_S


class _WithoutAnswer(KnowledgeBaseCache):
    async def read_current(self, organization_id: str, kb_ids: Sequence[str] | None) -> Mapping[str, KnowledgeBase]:
        await asyncio.Event().wait()
        return {}


async def test_a_failed_search_does_not_wait_for_a_mongodb_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(optimistic_read, "_CHECK_AFTER_FAILURE_S", 0.01)
    begun = OptimisticRead(_WithoutAnswer(Mock(spec=Database)), "org", kbs={}, key=None, is_confirmed=True)
    async with asyncio.timeout(BRAKE_S):
        assert await begun.is_current()
