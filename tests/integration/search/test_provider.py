"""A search whose query can't be embedded."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from kb_local.ports import NO_TLS
from kb_local.python_server import ModelServer
from kb_shared.mongo.database import Database
from tests.integration.search.conftest import ORGANIZATION, Searcher
from tests.integration.search.knowledge import Document, Knowledge, create

Fail = Callable[..., Awaitable[None]]


@pytest.fixture
async def fail(model_server: ModelServer) -> AsyncIterator[Fail]:
    """Make the provider answer every call with a fault."""
    async with httpx.AsyncClient(base_url=model_server.url, trust_env=False, verify=NO_TLS, timeout=60) as admin:

        async def put(**fault: Any) -> None:
            (await admin.put("/admin/hash", json={"faults": [fault]})).raise_for_status()

        yield put
        (await admin.delete("/admin/hash")).raise_for_status()


async def test_w16_a_provider_that_is_limiting_us_is_a_503_with_its_own_patience(
    searcher: Searcher, knowledge: Knowledge, fail: Fail
) -> None:
    await fail(status=429, retry_after_s=7)
    response = await searcher.post(knowledge, {"query": "x"})
    assert (response.status_code, response.json()["type"]) == (503, "provider-unavailable")
    assert response.headers["retry-after"] == "7"


async def test_a_query_that_was_embedded_before_needs_no_provider(
    searcher: Searcher, knowledge: Knowledge, fail: Fail
) -> None:
    await knowledge.index(Document("d", ["one"]))
    await searcher.search(knowledge, "one")
    await fail(status=503)
    assert (await searcher.search(knowledge, "one"))["results"]


async def test_a_text_the_provider_refuses_is_the_callers_to_change(
    searcher: Searcher, knowledge: Knowledge, fail: Fail
) -> None:
    await fail(status=400)
    response = await searcher.post(knowledge, {"query": "canary-4711"})
    assert (response.status_code, response.json()["type"]) == (422, "query-refused")
    assert "canary" not in response.text


async def test_a_key_the_provider_refuses_is_not_the_callers_fault(
    searcher: Searcher, knowledge: Knowledge, fail: Fail
) -> None:
    await fail(status=401)
    response = await searcher.post(knowledge, {"query": "x"})
    assert (response.status_code, response.json()["type"]) == (503, "provider-refused")


async def test_a_model_this_deployment_has_no_more_is_not_the_callers_fault(
    searcher: Searcher, search_database: Database
) -> None:
    knowledge = await create(search_database, ORGANIZATION, embedding_model="no-such-model")
    response = await searcher.post(knowledge, {"query": "x"})
    assert (response.status_code, response.json()["type"]) == (503, "provider-refused")
