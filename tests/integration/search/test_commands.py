"""How often a search asks MongoDB, which is most of what it costs."""

import pytest

from tests.integration.indexer.support import CommandLog
from tests.integration.search.conftest import Searcher
from tests.integration.search.knowledge import Document, Knowledge, relevance

QUERY = "kayak"
BESIDE_SEARCHES = ("aggregate kb_slots", "update knowledge_bases", "insert query_log")
"""Once in some seconds, however many searches there are."""


@pytest.fixture
async def library(knowledge: Knowledge) -> Knowledge:
    """More chunks than the vector index is asked for; the only one with the word is the farthest."""
    texts = sorted((f"filler {n}" for n in range(130)), key=lambda text: relevance(QUERY, text), reverse=True)
    far = min((f"{QUERY} {n}" for n in range(100)), key=lambda text: relevance(QUERY, text))
    await knowledge.index(Document("d", [*texts, far]))
    return knowledge


async def test_a_query_asked_again_costs_one_look_each_at_key_kb_indexes_and_hits(
    watched: Searcher, library: Knowledge, command_log: CommandLog
) -> None:
    for mode, legs in {"vector": 1, "text": 1, "hybrid": 2}.items():
        first = await watched.search(library, QUERY, mode=mode, top_k=20)
        command_log.clear()
        again = await watched.search(library, QUERY, mode=mode, top_k=20)
        assert again["results"] == first["results"] != []
        asked = [name for name in command_log.names() if name not in BESIDE_SEARCHES]
        hits = f"aggregate {library.chunks.collection.name}"
        assert sorted(asked) == sorted(["find api_keys", "find knowledge_bases", *[hits] * (legs + 1)]), mode
    far = next(result for result in again["results"] if QUERY in result["content"])
    # Its vector came with its text.
    assert (far["scores"]["vector"], far["relevance"]) == (None, pytest.approx(relevance(QUERY, far["content"])))


async def test_least_relevance_costs_no_further_look(
    watched: Searcher, library: Knowledge, command_log: CommandLog
) -> None:
    await watched.search(library, QUERY)
    command_log.clear()
    assert (await watched.search(library, QUERY, min_score=0.01))["results"]
    assert command_log.names().count(f"aggregate {library.chunks.collection.name}") == 3
    assert not [name for name in command_log.names() if name.startswith(("getMore", "find kb_vectors"))]
