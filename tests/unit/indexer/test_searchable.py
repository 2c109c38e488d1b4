"""Replaced chunks are deleted only when no search needs them any more."""

import asyncio
from datetime import UTC, datetime
from unittest.mock import AsyncMock, Mock

import numpy as np
import pytest

from kb_indexer import searchable
from kb_indexer.searchable import SearchProbe
from kb_shared.mongo import index_queries, vectors
from kb_shared.mongo.vectors import Chunks, EmbeddedChunk
from tests.unit.embedding.virtual_time import run

LONGEST_SEARCH_S = 2.0
"""From the answer of the search index to the read of what it found, at most."""


def test_a_search_that_asked_the_index_before_it_changed_still_reads_the_replaced_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    last_answer_with_old_ids, deleted = 0.0, 0.0

    async def trailing(*_: object, **__: object) -> list[str]:
        nonlocal last_answer_with_old_ids
        now = asyncio.get_running_loop().time()
        if now < 1.0:
            last_answer_with_old_ids = now
            return ["d:old:0"]
        return ["d:new:0"]

    async def delete(*_: object, up_to_version: int) -> None:
        nonlocal deleted
        assert up_to_version == 1
        deleted = asyncio.get_running_loop().time()

    monkeypatch.setattr(index_queries, "query_vector_index", trailing)
    monkeypatch.setattr(index_queries, "any_in_text_index", AsyncMock(return_value=True))
    monkeypatch.setattr(searchable, "on_each_member", lambda chunks: [chunks])
    monkeypatch.setattr(vectors, "delete_retired", delete)

    async def replace_and_wait() -> None:
        probe = SearchProbe()
        probe.watch(
            Chunks(Mock(), "org", "kb"),
            "d",
            chunk(),
            ids=["d:new:0"],
            version=2,
            retired=True,
            occurred_at=datetime.now(UTC),
            path="ocr",
        )
        await asyncio.gather(*probe._tasks)

    run(replace_and_wait)
    assert last_answer_with_old_ids > 0
    assert deleted >= last_answer_with_old_ids + LONGEST_SEARCH_S


def chunk() -> EmbeddedChunk:
    return EmbeddedChunk(0, "new", "new", "new", np.ones(2, np.float32), 1, 0, 3, None, None, (), "text")
