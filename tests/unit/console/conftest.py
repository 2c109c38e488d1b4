from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from kb_console.bootstrap import create_app
from kb_console.settings import ConsoleSettings
from tests.unit.console.fake_api import FakeApi

API_KEY = "kb_0123456789ab_secret"
SECRET = "a secret of the tests, long enough"
HOST = "http://console.example"
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
async def app(api: FakeApi) -> AsyncIterator[FastAPI]:
    async with httpx.AsyncClient(transport=httpx.MockTransport(api.answer)) as http:
        settings = ConsoleSettings(
            base_url="http://api.example", console_secret=SECRET, failed_sign_ins_per_minute_of_address=3
        )
        yield create_app(settings, http=http)


@pytest.fixture
async def stranger(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A browser of somebody who is not signed in."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=HOST, headers=SAME_ORIGIN) as browser:
        yield browser


@pytest.fixture
async def reader(stranger: httpx.AsyncClient) -> httpx.AsyncClient:
    """A browser of somebody who is signed in with the scopes read, search and write."""
    answer = await stranger.post("/console/sign-in", data={"api_key": API_KEY})
    assert answer.status_code == 303, answer.text
    return stranger


@pytest.fixture
async def admin(stranger: httpx.AsyncClient, api: FakeApi) -> httpx.AsyncClient:
    """A browser of somebody who is signed in with the scope admin."""
    api.answers["GET /v0/whoami"]["scopes"] = ["admin"]
    answer = await stranger.post("/console/sign-in", data={"api_key": API_KEY})
    assert answer.status_code == 303, answer.text
    return stranger
