"""The number beside Operations costs a page nothing: neither time nor its success."""

import asyncio
import re
from pathlib import Path
from typing import Final

import httpx
import pytest
from fastapi import FastAPI
from pydantic import HttpUrl

from kb_console import header_count, pages
from kb_console.settings import ConsoleSettings
from kb_shared.http.dependencies import get_provided, provide
from tests.unit.console.fake_api import FakeApi
from tests.waiting import BRAKE_S

DOCS: Final = Path(__file__).parents[3] / "docs"
LIST = "/console/orgs/acme/knowledge-bases"
COUNTS = "GET /operations/counts"
WORDS = "2 open dead letters, 1 failed document"


@pytest.fixture(autouse=True)
def patient_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that wait as long as a busy machine may take for the number."""
    monkeypatch.setattr(header_count, "WAIT_S", BRAKE_S)


async def test_the_header_counts_what_needs_attention_and_says_what_it_counts(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    page = (await reader.get(LIST)).text
    assert (
        f'Operations <span class="badge bad" title="{WORDS}">3<span class="unseen">: {WORDS}</span></span></a>' in page
    )
    api.answers[COUNTS] = {"dead_letters": 1_000, "failed_documents": 0, "is_exact": False}
    assert "1\N{NARROW NO-BREAK SPACE}000 or more<span" in (await reader.get(LIST)).text
    api.answers[COUNTS] = {"dead_letters": 0, "failed_documents": 0, "is_exact": True}
    assert "Operations</a>" in (await reader.get(LIST)).text


async def test_pages_of_errors_have_the_number_too(reader: httpx.AsyncClient, api: FakeApi) -> None:
    missing = await reader.get(f"{LIST}/{'0' * 24}")
    assert (missing.status_code, WORDS in missing.text) == (404, True)


@pytest.mark.parametrize(
    ("status", "slug"), [(403, "key-limited"), (404, "not-found"), (429, "rate-limited"), (503, "x")]
)
async def test_a_page_without_the_number_is_complete(
    reader: httpx.AsyncClient, api: FakeApi, status: int, slug: str
) -> None:
    api.refuse(COUNTS, status, slug)
    page = await reader.get(LIST)
    assert (page.status_code, "Operations</a>" in page.text, "Handbook" in page.text) == (200, True, True)


async def test_the_number_is_asked_for_beside_the_calls_of_the_page(reader: httpx.AsyncClient, api: FakeApi) -> None:
    api.held["GET /knowledge-bases"] = api.begun[COUNTS]
    async with asyncio.timeout(BRAKE_S):
        assert WORDS in (await reader.get(LIST)).text


async def test_a_page_does_not_wait_for_a_number_that_does_not_come(
    reader: httpx.AsyncClient, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(header_count, "WAIT_S", 0.1)
    api.held[COUNTS] = asyncio.Event()
    async with asyncio.timeout(BRAKE_S):
        page = await reader.get(LIST)
    assert (page.status_code, "Operations</a>" in page.text) == (200, True)
    assert page.headers["content-length"] == str(len(page.content))


async def test_parts_of_pages_and_keys_that_may_not_read_ask_for_no_number(
    stranger: httpx.AsyncClient, api: FakeApi
) -> None:
    api.answers["GET /v0/whoami"]["scopes"] = ["search"]
    await stranger.post("/console/sign-in", data={"api_key": "kb_0123456789ab_secret"})
    await stranger.get(LIST)
    assert COUNTS not in api.calls
    api.answers["GET /v0/whoami"]["scopes"] = ["read"]
    await stranger.post("/console/sign-in", data={"api_key": "kb_0123456789ab_secret"})
    await stranger.get(LIST, headers={"HX-Request": "true", "HX-Request-Type": "partial"})
    await stranger.get(LIST, headers={"Sec-Fetch-Dest": "empty"})
    assert COUNTS not in api.calls


async def test_the_navigation_has_four_groups_and_all_of_its_pages_exist(admin: httpx.AsyncClient) -> None:
    page = (await admin.get(LIST)).text
    assert re.findall(r'<section aria-label="(\w+)"><h2>', page) == ["Use", "Content", "Build", "Run"]
    assert 'aria-current="page">Knowledge bases</a>' in page
    for address in dict.fromkeys(re.findall(r'<li><a href="([^"]+)"', page[: page.index("</nav>")])):
        shown = await admin.get(address)
        assert (shown.status_code, 'aria-current="page"' in shown.text) == (200, True), address


async def test_help_leads_to_the_documentation_where_it_is_and_names_its_files_where_it_is_not(
    reader: httpx.AsyncClient, app: FastAPI
) -> None:
    address = "/console/orgs/acme/help"
    assert "<code>docs/how-to/use-the-console.md</code>" in (await reader.get(address)).text
    settings = get_provided(app, ConsoleSettings)
    provide(app, settings.model_copy(update={"console_docs_url": HttpUrl("https://docs.example/kb/")}))
    page = (await reader.get(address)).text
    assert '<a href="https://docs.example/kb/how-to/use-the-console.html">' in page
    assert "at most 20.0\N{NARROW NO-BREAK SPACE}MB each" in page


def test_each_page_of_the_help_exists() -> None:
    template = Path(pages.__file__).with_name("templates") / "help.html"
    named = re.findall(r'page\("([^"]+)"', template.read_text(encoding="utf-8"))
    assert named
    assert [each for each in named if not (DOCS / f"{each}.md").exists()] == []
