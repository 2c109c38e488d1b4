import httpx
import pytest
from fastapi import FastAPI

from kb_local.python_server import ModelServerProcess
from kb_search.settings import SearchSettings
from kb_shared.http import request_limits
from kb_shared.mongo.api_keys import Scope
from kb_shared.mongo.database import Database
from kb_shared.mongo.rate_limits import Bucket, reserve
from tests.integration.runs.conftest import Author
from tests.integration.search.conftest import ORGANIZATION, key_for

QUESTION = [{"role": "user", "content": "x"}]


@pytest.fixture(autouse=True)
def _refresh_limits_on_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make changes of limits in MongoDB take effect at once."""
    monkeypatch.setattr(request_limits, "REFRESH_AFTER_S", 0.0)


@pytest.fixture
def settings(model_server: ModelServerProcess) -> SearchSettings:
    return SearchSettings(
        local_models_api_base=model_server.api_base, runs_per_minute_of_key=1, runs_per_minute_of_organization=1
    )


async def ask(author: Author) -> httpx.Response:
    return await author.ask("POST", "/runs", {"messages": QUESTION, "model": "none"})


async def exhaust_limit(database: Database, whose: str) -> None:
    """For longer than any test takes."""
    bucket = Bucket(ORGANIZATION, f"run/{whose}", 1)
    assert (await reserve(database, bucket, requests=1_000, tokens=0, longest_wait_s=1e9)).made


async def test_a_key_and_an_organization_have_limits_that_say_when_to_come_again(
    app: FastAPI, search_database: Database, settings: SearchSettings
) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://search") as http:
        one, other = [
            Author(http, await key_for(search_database, settings, ORGANIZATION, Scope.ADMIN)) for _ in range(2)
        ]
        first = await ask(one)
        await exhaust_limit(search_database, f"key/{one.key.split('_')[1]}")
        again = await ask(one)
        await exhaust_limit(search_database, "organization")
        others = await ask(other)
    assert first.status_code == 422, "within the limits; there is no such model"
    assert (again.status_code, others.status_code) == (429, 429)
    assert "of this key" in again.json()["detail"]
    assert "of this organization" in others.json()["detail"]
    assert int(again.headers["retry-after"]) >= 1
