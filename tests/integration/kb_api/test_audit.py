"""The audit log says who changed what, in the transaction of the change, and nothing of what was sent."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from kb_shared.http.cursors import Cursors, CursorScope
from kb_shared.mongo import audit_log
from kb_shared.mongo.api_keys import Scope
from kb_shared.secrets.peppers import Peppers
from tests.integration.kb_api.organization import OrganizationClient
from tests.waiting import until

NewOrganization = Callable[..., Awaitable[OrganizationClient]]


async def entries_of(organization: OrganizationClient, **wanted: Any) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await organization.ok("GET", "/audit", limit=100, **wanted))["entries"]
    return listed


async def test_calls_that_change_something_are_listed_with_who_what_and_outcome(
    organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    created = await organization.create(name="Canary")
    path = f"/knowledge-bases/{created['kb_id']}"
    reader = await new_organization(Scope.READ, organization_id=organization.organization_id)
    assert await reader.refused("DELETE", path) == (403, "missing-scope")
    assert await organization.refused("PUT", path, json={"tag_ids": ["canary"]}) == (422, "unknown-tag")
    await organization.ok("GET", path)
    deleted = await organization.request("DELETE", path)
    entries = await entries_of(organization)
    key_id, kb = organization.key.split("_")[1], {"kb_id": created["kb_id"]}
    assert [(e["key_id"], e["operation"], e["target"], e["outcome"], e["status"]) for e in entries] == [
        (key_id, "knowledge_bases.delete", kb, "succeeded", 200),
        (key_id, "knowledge_bases.update", kb, "refused", 422),
        (reader.key.split("_")[1], "knowledge_bases.delete", kb, "refused", 403),
        (key_id, "knowledge_bases.create", {}, "succeeded", 201),
    ]
    assert entries[0]["request_id"] == deleted.headers["x-request-id"]
    stored = (
        await organization.database[audit_log.NAME].find({"organization_id": organization.organization_id}).to_list()
    )
    assert "canary" not in str(stored).lower()
    assert [e["status"] for e in await entries_of(organization, outcome="refused", key_id=key_id)] == [422]
    # Another organization's path is none of its calls.
    other = await new_organization()
    await organization.http.delete(f"{other.base}{path}", headers={"Authorization": f"Bearer {organization.key}"})
    assert await entries_of(other) == []


async def test_a_change_is_not_made_without_its_entry(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise AutoReconnect("lost")

    monkeypatch.setattr(audit_log, "store", fail)
    answer = await organization.request("POST", "/api-keys", json={"name": "n", "scopes": ["read"]})
    assert answer.status_code == 503
    assert (await organization.ok("GET", "/api-keys"))["total_count"] == 1
    [entry] = await entries_of(organization)
    assert (entry["outcome"], entry["status"]) == ("failed", 503)


async def test_a_repeated_request_is_one_entry(organization: OrganizationClient) -> None:
    headers = {"Authorization": f"Bearer {organization.key}", "Idempotency-Key": "k"}
    for _ in range(2):
        await organization.http.post(f"{organization.base}/knowledge-bases", headers=headers, json={"name": "n"})
    assert len(await entries_of(organization)) == 1


async def test_pages_follow_a_cursor_that_is_of_this_organization_and_these_filters(
    organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    for n in range(5):
        await organization.ok("POST", "/tags", json={"tag_id": f"t{n}", "name": "n"})
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(3):
        page = await organization.ok("GET", "/audit", limit=2, **cursor)
        seen += [entry["entry_id"] for entry in page["entries"]]
        cursor = {"cursor": page["next_cursor"]}
        # What is added meanwhile shifts nothing.
        await organization.ok("POST", "/tags", json={"tag_id": "new", "name": "n"})
    assert len(set(seen)) == len(seen) == 5
    assert page["next_cursor"] is None
    page = await organization.ok("GET", "/audit", limit=2)
    given = page["next_cursor"]
    other = await new_organization()
    forged = Cursors(Peppers("another")).create(
        CursorScope(organization.organization_id, "audit", {}), page["entries"][1]["entry_id"]
    )
    for whose, wrong in (
        (other, {"cursor": given}),
        (organization, {"cursor": given, "outcome": "failed"}),
        (organization, {"cursor": given[:-2]}),
        (organization, {"cursor": forged}),
        (organization, {"cursor": "é"}),
    ):
        assert await whose.refused("GET", "/audit", **wrong) == (422, "validation-error")


async def test_whoami_describes_the_key(organization: OrganizationClient) -> None:
    kb_id = (await organization.create())["kb_id"]
    body = {"name": "n", "scopes": ["search", "read"], "kb_ids": [kb_id]}
    created = await organization.ok("POST", "/api-keys", json=body)
    answer = await organization.http.get("/v0/whoami", headers={"Authorization": f"Bearer {created['api_key']}"})
    assert answer.json() == {
        "organization_id": organization.organization_id,
        "key_id": created["key_id"],
        "name": "n",
        "scopes": ["read", "search"],
        "kb_ids": [kb_id],
        "expires_at": None,
        "limits": {"administration": {"of_key": 6_000, "of_organization": 12_000}},
    }
    assert (await organization.http.get("/v0/whoami")).status_code == 401


async def test_the_last_use_of_a_key_is_noted_once_a_minute(organization: OrganizationClient) -> None:
    async def last_used_at() -> str | None:
        listed = (await organization.ok("GET", "/api-keys"))["api_keys"]
        [mine] = [key for key in listed if key["key_id"] == organization.key.split("_")[1]]
        noted: str | None = mine["last_used_at"]
        return noted

    async def is_noted() -> bool:
        return await last_used_at() is not None

    await until(is_noted)
    noted = await last_used_at()
    await organization.ok("GET", "/tags")
    assert await last_used_at() == noted
