"""Limits of searches: who is refused, by whose limit, and what a refusal costs."""

from collections.abc import Awaitable, Callable

import httpx
import pytest

from kb_local.python_server import ModelServerProcess
from kb_search.settings import SearchSettings
from kb_shared.http import request_limits
from kb_shared.mongo.database import Database
from kb_shared.mongo.rate_limits import Bucket, reserve
from tests.integration.search.conftest import ORGANIZATION, NewSearcher, SearchingCaller
from tests.integration.search.knowledge import Knowledge

SEVERAL = f"/v0/orgs/{ORGANIZATION}/knowledge-bases/search"
Ask = Callable[[SearchingCaller], Awaitable[httpx.Response]]


@pytest.fixture(autouse=True)
def _refresh_limits_on_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make changes of limits in MongoDB take effect at once."""
    monkeypatch.setattr(request_limits, "REFRESH_AFTER_S", 0.0)


@pytest.fixture
def settings(model_server: ModelServerProcess) -> SearchSettings:
    return SearchSettings(
        local_models_api_base=model_server.api_base,
        searches_per_minute_of_key=1,
        searches_per_minute_of_organization=1_000,
    )


@pytest.fixture(params=["one", "several"])
def ask(request: pytest.FixtureRequest, knowledge: Knowledge) -> Ask:
    path = knowledge.path if request.param == "one" else SEVERAL

    async def post(searcher: SearchingCaller) -> httpx.Response:
        return await searcher.post(path, {"query": "x", "mode": "text"})

    return post


async def exhaust_limit(database: Database, whose: str) -> None:
    """For longer than any test takes."""
    bucket = Bucket(ORGANIZATION, f"search/{whose}", 1)
    assert (await reserve(database, bucket, requests=1_000, tokens=0, longest_wait_s=1e9)).made


def key_of(searcher: SearchingCaller) -> str:
    return f"key/{searcher.key.split('_')[1]}"


async def test_a_key_and_an_organization_have_limits_of_searches(
    ask: Ask, new_searcher: NewSearcher, search_database: Database
) -> None:
    one, other = await new_searcher(), await new_searcher()
    assert (await ask(one)).status_code == 200
    await exhaust_limit(search_database, key_of(one))
    refused = await ask(one)
    assert (refused.status_code, refused.json()["type"]) == (429, "too-many-requests")
    assert "of this key" in refused.json()["detail"]
    assert int(refused.headers["retry-after"]) >= 1
    assert (await ask(other)).status_code == 200, "the limit of a key is its own"
    third = await new_searcher()
    await exhaust_limit(search_database, "organization")
    refused = await ask(third)
    assert refused.status_code == 429
    assert "of this organization" in refused.json()["detail"]


async def test_a_search_that_the_organization_is_refused_costs_the_key_nothing(
    ask: Ask, searcher: SearchingCaller, search_database: Database
) -> None:
    await exhaust_limit(search_database, "organization")
    for _ in range(3):
        refused = await ask(searcher)
        assert refused.status_code == 429
        assert "of this organization" in refused.json()["detail"]
    await search_database["rate_limits"].delete_one({"_id": f"{ORGANIZATION}/search/organization"})
    assert (await ask(searcher)).status_code == 200
