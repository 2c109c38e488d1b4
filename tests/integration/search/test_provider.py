"""A search whose query can't be embedded."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from kb_local.ports import NO_TLS
from kb_local.python_server import ModelServerProcess
from kb_search.settings import SearchSettings
from kb_shared.mongo import budgets, knowledge_bases
from kb_shared.mongo.budgets import BudgetLimits
from kb_shared.mongo.database import Database
from kb_shared.prices import Prices
from tests.integration.search.conftest import ORGANIZATION, SearchingCaller
from tests.integration.search.knowledge import DocumentToIndex, Knowledge, create

Fail = Callable[..., Awaitable[None]]


@pytest.fixture
def wait_s() -> float:
    """Time that a hybrid search waits for a vector: longer than a busy machine takes for one."""
    return 20.0


@pytest.fixture
def settings(model_server: ModelServerProcess, wait_s: float) -> SearchSettings:
    return SearchSettings(
        local_models_api_base=model_server.api_base, search_vector_wait_s=wait_s, embedding_timeout_s=4 * wait_s
    )


@pytest.fixture
async def fail(model_server: ModelServerProcess) -> AsyncIterator[Fail]:
    """Make the provider answer every call with a fault."""
    async with httpx.AsyncClient(base_url=model_server.url, trust_env=False, verify=NO_TLS, timeout=60) as admin:

        async def put(**fault: Any) -> None:
            (await admin.put("/admin/hash", json={"faults": [fault]})).raise_for_status()

        yield put
        (await admin.delete("/admin/hash")).raise_for_status()


async def test_w16_a_provider_that_is_limiting_us_is_a_503_with_its_own_patience(
    searcher: SearchingCaller, knowledge: Knowledge, fail: Fail
) -> None:
    await fail(status=429, retry_after_s=7)
    response = await searcher.post(knowledge, {"query": "x", "mode": "vector"})
    assert (response.status_code, response.json()["type"]) == (503, "provider-unavailable")
    assert response.headers["retry-after"] == "7"


async def test_vectors_of_another_model_of_the_same_name_are_not_searched_and_words_are(
    searcher: SearchingCaller, knowledge: Knowledge
) -> None:
    await knowledge.index(DocumentToIndex("d1", ["a fox of the woods"]))
    of_another = {"vector_fingerprint": "0" * 16, "vector_sample": [1.0] * 16}
    await knowledge.database[knowledge_bases.NAME].update_one({"_id": knowledge.kb.kb_id}, {"$set": of_another})

    by_meaning = await searcher.post(knowledge, {"query": "fox", "mode": "vector"})
    assert (by_meaning.status_code, by_meaning.json()["type"]) == (503, "provider-refused")
    assert "store the former address" in by_meaning.json()["detail"]
    by_words = await searcher.post(knowledge, {"query": "fox", "mode": "hybrid"})
    assert [each["document_id"] for each in by_words.json()["results"]] == ["d1"]


@pytest.mark.parametrize(
    ("fault", "wait_s"),
    [
        ({"status": 429, "retry_after_s": 7}, 20.0),
        ({"status": 503}, 20.0),
        ({"status": 401}, 20.0),
        ({"kind": "short"}, 20.0),
        ({"kind": "not_json"}, 20.0),
        ({"kind": "hang"}, 0.3),
    ],
)
async def test_a_hybrid_search_is_answered_by_words_when_its_provider_gives_no_vector(
    searcher: SearchingCaller, knowledge: Knowledge, fail: Fail, fault: dict[str, Any]
) -> None:
    for document in (DocumentToIndex("d1", ["a fox of the woods"]), DocumentToIndex("d2", ["a hen of the yard"])):
        await knowledge.index(document)
    await fail(**fault)
    # The second time the provider is perhaps known to be out, and not asked.
    for _ in range(2):
        answer = await searcher.search(knowledge, "fox", min_score=0.99)
        assert [result["document_id"] for result in answer["results"]] == ["d1"]
        assert answer["degraded"] == ["vector"]
        [result] = answer["results"]
        assert (result["relevance"], result["scores"]["vector"]) == (None, None)
        assert result["scores"]["text"] > 0


async def test_words_do_not_answer_for_a_budget_that_has_no_room_or_a_model_without_a_price(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await knowledge.index(DocumentToIndex("d1", ["a fox of the woods"]))
    await budgets.set_limits(search_database, ORGANIZATION, BudgetLimits(hard=0))
    response = await searcher.post(knowledge, {"query": "fox"})
    assert (response.status_code, response.json()["type"]) == (402, "budget-exhausted")
    await budgets.set_limits(search_database, ORGANIZATION, BudgetLimits(hard_nano_usd=10**12))
    monkeypatch.setattr(Prices, "of_embedding", lambda *_, **__: None)
    response = await searcher.post(knowledge, {"query": "fox"})
    assert (response.status_code, response.json()["type"]) == (422, "unknown-price")
    assert (await searcher.search(knowledge, "fox", mode="text"))["results"]


async def test_a_hybrid_search_is_as_before_once_the_provider_is_back(
    searcher: SearchingCaller, knowledge: Knowledge, fail: Fail
) -> None:
    await knowledge.index(DocumentToIndex("d1", ["a fox of the woods"]))
    await fail(status=503, times=1)
    degraded = await searcher.search(knowledge, "fox")
    assert degraded["degraded"] in ([], ["vector"])
    assert (await searcher.search(knowledge, "fox of the woods"))["degraded"] == []


async def test_knowledge_bases_whose_provider_answers_are_searched_by_vectors_beside_others(
    searcher: SearchingCaller, knowledge: Knowledge, search_database: Database, fail: Fail
) -> None:
    other = await create(search_database, ORGANIZATION, embedding_model="hash-128")
    await knowledge.index(DocumentToIndex("d1", ["a fox of the woods"]))
    await other.index(DocumentToIndex("d2", ["a fox of the hills"]))
    await searcher.search(other, "fox")
    await fail(status=503)
    asked = {"query": "fox", "kb_ids": [knowledge.kb.kb_id, other.kb.kb_id]}
    response = await searcher.post(f"/v0/orgs/{ORGANIZATION}/knowledge-bases/search", asked)
    answer = response.json()
    assert (answer["failures"], answer["degraded"]) == ([], ["vector"])
    by_document = {result["document_id"]: result["relevance"] for result in answer["results"]}
    assert by_document.keys() == {"d1", "d2"}
    assert by_document["d1"] is None
    assert by_document["d2"] is not None


async def test_a_query_that_was_embedded_before_needs_no_provider(
    searcher: SearchingCaller, knowledge: Knowledge, fail: Fail
) -> None:
    await knowledge.index(DocumentToIndex("d", ["one"]))
    await searcher.search(knowledge, "one")
    await fail(status=503)
    answer = await searcher.search(knowledge, "one")
    assert answer["results"]
    assert answer["degraded"] == []


async def test_a_text_the_provider_refuses_is_the_callers_to_change(
    searcher: SearchingCaller, knowledge: Knowledge, fail: Fail
) -> None:
    await fail(status=400)
    response = await searcher.post(knowledge, {"query": "canary-4711"})
    assert (response.status_code, response.json()["type"]) == (422, "query-refused")
    assert "canary" not in response.text


async def test_a_key_the_provider_refuses_is_not_the_callers_fault(
    searcher: SearchingCaller, knowledge: Knowledge, fail: Fail
) -> None:
    await fail(status=401)
    response = await searcher.post(knowledge, {"query": "x", "mode": "vector"})
    assert (response.status_code, response.json()["type"]) == (503, "provider-refused")


async def test_a_model_this_deployment_has_no_more_is_not_the_callers_fault(
    searcher: SearchingCaller, search_database: Database
) -> None:
    knowledge = await create(search_database, ORGANIZATION, embedding_model="no-such-model")
    response = await searcher.post(knowledge, {"query": "x"})
    assert (response.status_code, response.json()["type"]) == (503, "provider-refused")
