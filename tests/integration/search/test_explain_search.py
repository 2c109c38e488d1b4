"""Why a document is not among the results of a search: the first reason that applies, in words and as ranks."""

from typing import Any

from kb_shared.mongo import query_log
from kb_shared.mongo.database import Database
from tests.integration.runs.projection import hear_of_text
from tests.integration.search.conftest import ORGANIZATION, NewSearcher, SearchingCaller
from tests.integration.search.knowledge import DocumentToIndex, Knowledge


async def explain(searcher: SearchingCaller, where: Knowledge, document_id: str, **fields: Any) -> dict[str, Any]:
    body = {"query": "blue kayak", "document_id": document_id, **fields}
    response = await searcher.post(f"{where.path}/explain", body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_a_document_that_is_not_among_the_results_has_one_reason_and_its_ranks(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database
) -> None:
    texts = {"best": "blue kayak", "second": "blue kayak and more", "other": "nothing alike at all"}
    found = [DocumentToIndex(each, [text], name=f"{each}.md") for each, text in texts.items()]
    for document in found:
        await knowledge.index(document, searchable=False)
    for document in found:
        await knowledge.wait_until_found(document)

    best = await explain(searcher, knowledge, "best")
    assert (best["reason"], best["position"]) == ("in_results", 1)
    assert [best[leg]["rank"] for leg in ("vector", "text", "fused")] == [1, 1, 1]

    beyond = await explain(searcher, knowledge, "second", top_k=1)
    assert (beyond["reason"], beyond["position"]) == ("beyond_page", None)
    assert [beyond[leg]["rank"] for leg in ("text", "fused")] == [2, 2]
    assert "rank 2" in beyond["detail"]

    # Ranks are those without the filter.
    wanted = {"document_name": {"$ne": "second.md"}, "tag_ids": {"$nin": ["x"]}}
    filtered = await explain(searcher, knowledge, "second", metadata_filter=wanted, document_ids=["best"])
    assert (filtered["reason"], filtered["text"]["rank"]) == ("filtered_out", 2)
    assert filtered["filtered_out_by"] == ["document_ids", "metadata_filter.document_name"]

    below = await explain(searcher, knowledge, "other", min_score=1)
    assert (below["reason"], below["text"], below["min_score"]) == ("below_min_score", {"rank": None, "score": None}, 1)
    assert below["vector"]["score"] == below["relevance"] < 1
    without_words = await explain(searcher, knowledge, "other", mode="text")
    assert (without_words["reason"], without_words["vector"]) == ("not_found", None)

    await searcher.search(knowledge, "blue kayak")
    rows = await search_database[query_log.NAME].find({"organization_id": ORGANIZATION}).to_list()
    assert len(rows) <= 1, "explanations are not part of the insights"


async def test_a_document_outside_of_the_knowledge_base_is_explained_and_an_unknown_one_not_found(
    searcher: SearchingCaller, new_searcher: NewSearcher, knowledge: Knowledge, search_database: Database
) -> None:
    await hear_of_text(search_database, ORGANIZATION, "outside", "blue kayak", name="O.md")
    answer = await explain(searcher, knowledge, "outside")
    assert answer["reason"] == "not_in_knowledge_base"
    assert answer["detail"] == "It has none of the tags of this knowledge base."
    body = {"query": "blue kayak", "document_id": "none"}
    assert (await searcher.post(f"{knowledge.path}/explain", body)).status_code == 404
    stranger = await new_searcher("other")
    assert (await stranger.post(f"{knowledge.path}/explain", body | {"document_id": "outside"})).status_code == 404
