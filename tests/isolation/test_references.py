"""A value that the system gave to one organization is of no use to another: cursors, idempotency keys, texts.

Keys over MCP are tested in `tests/integration/mcp`.
"""

from uuid import uuid4

import httpx
import pytest

from kb_shared.mongo.api_keys import Scope
from tests.isolation.conftest import DOCUMENT_ID, PROBER, TwoTenants


class OrganizationCaller:
    """Calls both services as one organization."""

    def __init__(self, tenants: TwoTenants, organization_id: str, key: str) -> None:
        self._clients = tenants.clients
        self._base = f"/v0/orgs/{organization_id}"
        self._key = key

    async def send(
        self, service: str, method: str, path: str, *, headers: dict[str, str] | None = None, **body: object
    ) -> httpx.Response:
        return await self._clients[service].request(
            method,
            self._base + path,
            headers={"Authorization": f"Bearer {self._key}", **(headers or {})},
            **body,  # type: ignore[arg-type]  # json or content
        )


@pytest.fixture(scope="module")
async def owner(tenants: TwoTenants) -> OrganizationCaller:
    """An organization that gets cursors and references."""
    organization_id = f"owner-{uuid4().hex[:8]}"
    return OrganizationCaller(tenants, organization_id, await tenants.key(organization_id, Scope.ADMIN))


@pytest.fixture(scope="module")
async def prober(tenants: TwoTenants) -> OrganizationCaller:
    return OrganizationCaller(tenants, PROBER, await tenants.key(PROBER, Scope.ADMIN))


async def test_a_cursor_of_another_organization_is_refused(
    owner: OrganizationCaller, prober: OrganizationCaller
) -> None:
    for number in range(2):
        (await owner.send("kb-api", "POST", "/tags", json={"tag_id": f"t{number}", "name": "n"})).raise_for_status()
    page = (await owner.send("kb-api", "GET", "/audit?limit=1")).raise_for_status().json()
    next_page = f"/audit?limit=1&cursor={page['next_cursor']}"
    assert (await owner.send("kb-api", "GET", next_page)).json()["entries"] != page["entries"]
    refused = await prober.send("kb-api", "GET", next_page)
    assert (refused.status_code, refused.json()["fields"][0]["field"]) == (422, "cursor")


async def test_an_idempotency_key_of_another_organization_returns_none_of_its_answers(
    owner: OrganizationCaller, prober: OrganizationCaller
) -> None:
    headers = {"Idempotency-Key": uuid4().hex}
    first, again, theirs = [
        (await caller.send("search", "POST", "/threads", json={}, headers=headers)).raise_for_status().json()
        for caller in (owner, owner, prober)
    ]
    assert again == first
    assert theirs["thread_id"] != first["thread_id"]


async def test_a_text_of_another_organization_is_the_same_422_as_one_that_does_not_exist(
    owner: OrganizationCaller, prober: OrganizationCaller
) -> None:
    stored = await owner.send(
        "kb-api",
        "PUT",
        f"/documents/{DOCUMENT_ID}/text",
        content=b"The text of the owner.",
        headers={"Content-Type": "text/plain; charset=utf-8"},
    )
    text_ref = stored.raise_for_status().json()["text_ref"]
    document = {"document_name": "d", "upload_date": "2026-01-31T12:00:00Z", "tag_ids": []}
    theirs, nonexistent = [
        await prober.send("kb-api", "PUT", f"/documents/{DOCUMENT_ID}", json=document | {"text_ref": reference})
        for reference in (text_ref, f"{DOCUMENT_ID}/{'0' * 32}")
    ]
    assert (theirs.status_code, theirs.json()["type"]) == (422, "unknown-text-ref")
    assert theirs.json()["detail"].replace(text_ref, "") == nonexistent.json()["detail"].replace("0" * 32, "")
    known = await owner.send("kb-api", "PUT", f"/documents/{DOCUMENT_ID}", json=document | {"text_ref": text_ref})
    assert known.status_code == 202
