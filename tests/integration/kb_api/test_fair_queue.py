"""kb-api shares itself between the organizations that call."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import httpx
import pytest
from fastapi import FastAPI

from kb_api.bootstrap import KbApi, create_app
from kb_shared.concurrency.fair_queue import FairQueue
from kb_shared.http.dependencies import get_provided
from tests.e2e.system import new_knowledge_base
from tests.fair_queue_load import has_active, has_waiting, hold_turns
from tests.integration.kb_api.conftest import NewOrganization
from tests.integration.kb_api.organization import OrganizationClient
from tests.integration.kb_api.test_before_the_body import under_way
from tests.waiting import until

UNKNOWN_MODEL: Final = "hash-23"
"""Its dimensions have to be asked for."""


@pytest.fixture
def app(api: KbApi) -> FastAPI:
    settings = api.settings.model_copy(update={"http_max_active_of_organization": 1})
    return create_app(replace(api, settings=settings))


@pytest.fixture
def queue(app: FastAPI) -> FairQueue:
    return get_provided(app, FairQueue)


@pytest.fixture
async def new_caller(app: FastAPI, new_organization: NewOrganization) -> AsyncIterator[NewOrganization]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://kb-api") as http:

        async def make() -> OrganizationClient:
            return replace(await new_organization(), http=http)

        yield make


async def test_a_request_waits_for_the_turn_of_its_organization_and_those_of_others_do_not(
    new_caller: NewOrganization, queue: FairQueue
) -> None:
    busy, other = await new_caller(), await new_caller()
    async with hold_turns(queue, busy.organization_id):
        waiting = asyncio.create_task(busy.ok("GET", "/tags"))
        await until(lambda: has_waiting(queue, busy.organization_id))
        await other.ok("GET", "/tags")
        assert not waiting.done()
    assert (await waiting)["total_count"] == 0


async def test_a_body_that_has_not_come_keeps_no_other_request_waiting(
    new_caller: NewOrganization, queue: FairQueue
) -> None:
    slow = await new_caller()
    async with hold_turns(queue, "another"), under_way(slow, number=3):
        await slow.ok("GET", "/tags")


async def test_a_text_that_comes_slowly_keeps_no_other_request_waiting(
    new_caller: NewOrganization, queue: FairQueue
) -> None:
    slow = await new_caller()
    come = asyncio.Event()

    async def text() -> AsyncIterator[bytes]:
        yield b"a text "
        await come.wait()
        yield b"to its end"

    headers = {"Authorization": f"Bearer {slow.key}", "Content-Type": "text/plain"}
    async with hold_turns(queue, "another"):
        storing = asyncio.create_task(slow.http.put(f"{slow.base}/documents/d/text", content=text(), headers=headers))
        await until(lambda: has_active(queue, slow.organization_id))
        await slow.ok("GET", "/tags")
        come.set()
        assert (await storing).is_success


async def test_a_request_without_a_right_key_takes_no_turn(new_caller: NewOrganization, queue: FairQueue) -> None:
    busy, other = await new_caller(), await new_caller()
    async with hold_turns(queue, busy.organization_id):
        assert (await replace(busy, key=other.key).request("GET", "/tags")).status_code == 404


async def test_while_a_provider_is_asked_for_a_new_knowledge_base_other_requests_are_processed(
    new_caller: NewOrganization, queue: FairQueue, provider: Callable[..., Awaitable[None]]
) -> None:
    creator = await new_caller()
    await creator.ok("POST", "/tags", json={"tag_id": "t", "name": "t"})
    await provider({"kind": "hang", "hang_s": 60, "model": UNKNOWN_MODEL})
    body: dict[str, Any] = new_knowledge_base("t", embedding_model=UNKNOWN_MODEL)
    async with hold_turns(queue, "another"):
        creating = asyncio.create_task(creator.request("POST", "/knowledge-bases", json=body))
        await until(lambda: has_active(queue, creator.organization_id))
        await creator.ok("GET", "/tags")
        assert not creating.done()
        await provider()
        assert (await creating).status_code == 201
