"""Limits of kb-api: administrative calls, and failures to show a right key."""

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from kb_api.bootstrap import create_app
from kb_api.services import Services
from tests.integration.kb_api.organization import Organization


@pytest.fixture
async def limited(organization: Organization, services: Services) -> AsyncIterator[Organization]:
    """The organization, at a kb-api with the lowest limits."""
    limits = {
        "administrative_calls_per_minute_of_key": 1,
        "administrative_calls_per_minute_of_organization": 1_000,
        "failed_authentications_per_minute_of_address": 3,
        "failed_authentications_per_minute_of_key": 1,
    }
    other = replace(services, settings=services.settings.model_copy(update=limits))
    transport = httpx.ASGITransport(create_app(other))
    async with httpx.AsyncClient(transport=transport, base_url="http://kb-api") as http:
        yield replace(organization, http=http)


async def test_administrative_calls_have_a_limit_and_documents_have_none(limited: Organization) -> None:
    assert (await limited.request("GET", "/tags")).status_code == 200
    refused = await limited.request("GET", "/budget")
    assert (refused.status_code, refused.json()["type"]) == (429, "too-many-requests")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert "of this key" in refused.json()["detail"]
    assert await limited.refused("GET", "/documents/none") == (404, "not-found")


async def test_failures_to_show_a_right_key_have_a_limit_that_no_right_key_meets(limited: Organization) -> None:
    wrong = replace(limited, key=limited.key[:-1] + ("0" if limited.key[-1] != "0" else "1"))
    assert await wrong.refused("GET", "/documents/none") == (401, "unauthenticated")
    refused = await wrong.request("GET", "/documents/none")
    assert (refused.status_code, refused.json()["type"]) == (429, "too-many-failed-authentications")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    for number in range(6):
        stranger = replace(limited, key=f"kb_stranger{number}_{'0' * 40}")
        status, _ = await stranger.refused("GET", "/documents/none")
        # What was refused for the sake of its key has failed from this address, too.
        assert status == (401 if number < 1 else 429), "of this address"
    assert await limited.refused("GET", "/documents/none") == (404, "not-found"), "a right key"
