"""How often a search asks MongoDB, which is most of what it costs."""

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest

from kb_search.retrieval.chunk_counts import ChunkCounts
from tests.integration.indexer.support import CommandLog
from tests.integration.search.conftest import SearchingCaller
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, relevance

QUERY = "kayak"
BESIDE_SEARCHES = ("aggregate kb_slots", "update knowledge_bases", "insert query_log", "findAndModify rate_limits")
"""Once in some seconds, however many searches there are."""


@pytest.fixture
async def library(knowledge: Knowledge) -> Knowledge:
    """More chunks than the vector index is asked for; the only one with the word is the farthest."""
    texts = sorted((f"filler {n}" for n in range(130)), key=lambda text: relevance(QUERY, text), reverse=True)
    far = min((f"{QUERY} {n}" for n in range(100)), key=lambda text: relevance(QUERY, text))
    await knowledge.index(DocumentToIndex("d", [*texts, far]))
    return knowledge


async def test_a_query_asked_again_costs_one_look_at_each_index_and_one_at_key_kb_and_hits(
    watched: SearchingCaller, library: Knowledge, command_log: CommandLog
) -> None:
    for mode, legs in {"vector": 1, "text": 1, "hybrid": 2}.items():
        first = await watched.search(library, QUERY, mode=mode, top_k=20)
        command_log.clear()
        again = await watched.search(library, QUERY, mode=mode, top_k=20)
        assert again["results"] == first["results"] != []
        asked = [name for name in command_log.names() if name not in BESIDE_SEARCHES]
        hits = f"aggregate {library.chunks.collection.name}"
        assert asked == [hits] * (legs + 1), mode
    far = next(result for result in again["results"] if QUERY in result["content"])
    # Its vector came with its text.
    assert (far["scores"]["vector"], far["relevance"]) == (None, pytest.approx(relevance(QUERY, far["content"])))


async def test_concurrent_first_searches_share_the_queries_for_key_and_kb(
    watched: SearchingCaller, library: Knowledge, command_log: CommandLog
) -> None:
    command_log.clear()
    answers = await asyncio.gather(*(watched.search(library, QUERY, mode="text") for _ in range(8)))
    assert all(answer["results"] == answers[0]["results"] != [] for answer in answers)
    names = command_log.names()
    assert names.count(f"aggregate {library.chunks.collection.name}") == 16
    for looked_up in ("find api_keys", "find knowledge_bases"):
        assert 1 <= names.count(looked_up) <= 4, looked_up


async def test_least_relevance_costs_no_further_look(
    watched: SearchingCaller, library: Knowledge, command_log: CommandLog
) -> None:
    await watched.search(library, QUERY)
    command_log.clear()
    assert (await watched.search(library, QUERY, min_score=0.01))["results"]
    assert command_log.names().count(f"aggregate {library.chunks.collection.name}") == 3
    assert not [name for name in command_log.names() if name.startswith(("getMore", "find kb_vectors"))]


async def test_a_large_kb_is_asked_for_twenty_candidates_a_hit_and_a_small_one_exactly(
    watched: SearchingCaller, library: Knowledge, command_log: CommandLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stages(**fields: Any) -> list[dict[str, Any]]:
        command_log.clear()
        await watched.search(library, QUERY, mode="vector", **fields)
        pipelines = [command["pipeline"] for command in command_log.commands if "pipeline" in command]
        return [stage["$vectorSearch"] for pipeline in pipelines for stage in pipeline if "$vectorSearch" in stage]

    [small] = await stages(top_k=20)
    assert (small["exact"], small["limit"]) == (True, 101)
    assert "numCandidates" not in small
    monkeypatch.setattr(ChunkCounts, "count_chunks", AsyncMock(return_value=10_001))
    for top_k, skip, limit, candidates in ((1, 0, 101, 2_020), (20, 0, 101, 2_020), (5, 100, 401, 8_020)):
        large = (await stages(top_k=top_k, skip=skip))[0]
        assert "exact" not in large
        assert (large["limit"], large["numCandidates"]) == (limit, candidates)
    *_, widest = await stages(top_k=20, skip=500)
    assert (widest["limit"], widest["numCandidates"]) == (10_000, 10_000), "no more than Atlas takes"
