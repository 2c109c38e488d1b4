"""A request that no majority of MongoDB has acknowledged is 503, and can be sent again."""

from kb_shared.mongo import backfills, tags
from tests.integration.failing_commands import UNKNOWN_WRITE_CONCERN, unacknowledged
from tests.integration.kb_api.organization import OrganizationClient

TAG = {"tag_id": "t", "name": "n"}


async def test_a_tag_that_no_majority_has_is_503(organization: OrganizationClient) -> None:
    client, namespace = organization.database.client, f"{organization.database.name}.{tags.NAME}"
    async with unacknowledged(client, "update", namespace=namespace):
        response = await organization.request("POST", "/tags", json=TAG)
    assert (response.status_code, response.json()["type"]) == (503, "unavailable")
    assert int(response.headers["retry-after"]) >= 1
    await organization.ok("POST", "/tags", json=TAG)


async def test_a_knowledge_base_that_may_have_been_created_is_named(organization: OrganizationClient) -> None:
    await organization.ok("POST", "/tags", json=TAG)
    await organization.ok("POST", "/knowledge-bases", json={"name": "first", "tag_ids": ["t"]})
    async with unacknowledged(organization.database.client, "commitTransaction", code=UNKNOWN_WRITE_CONCERN):
        response = await organization.request("POST", "/knowledge-bases", json={"name": "second", "tag_ids": ["t"]})
    assert (response.status_code, response.json()["type"]) == (503, "outcome-unknown")
    made = await organization.ok("GET", f"/knowledge-bases/{response.json()['kb_id']}")
    assert made["name"] == "second"


async def test_a_change_that_may_have_been_made_is_not_made_twice(organization: OrganizationClient) -> None:
    await organization.ok("POST", "/tags", json=TAG)
    await organization.ok("POST", "/tags", json={"tag_id": "other", "name": "n"})
    kb = await organization.ok("POST", "/knowledge-bases", json={"name": "kb", "tag_ids": ["t"]})
    path = f"/knowledge-bases/{kb['kb_id']}"
    async with unacknowledged(organization.database.client, "commitTransaction", code=UNKNOWN_WRITE_CONCERN):
        response = await organization.request("PUT", path, json={"tag_ids": ["other"]})
    assert response.status_code == 503
    changed = await organization.ok("PUT", path, json={"tag_ids": ["other"]})
    assert changed["tag_ids"] == ["other"]
    scans = organization.database[backfills.NAME].find({"kb_id": kb["kb_id"]})
    assert len(await scans.to_list()) == 2, "one for the creation, one for the change"
