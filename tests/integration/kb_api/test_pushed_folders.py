"""A name of pushed folders belongs to one folder, and changes hands only if the new one has seen the old one."""

from typing import Any

from kb_shared.concurrency.concurrent_tasks import run_all
from tests.integration.kb_api.organization import OrganizationClient

PATH = "/pushed-folders/docs"


def place(path: str, **more: Any) -> dict[str, Any]:
    return {"host": "laptop", "path": path, **more}


async def test_of_folders_that_are_pushed_at_once_one_gets_the_name(organization: OrganizationClient) -> None:
    assert await organization.refused("GET", PATH) == (404, "not-found")
    answers = await run_all(organization.request("PUT", PATH, json=place(f"/home/{n}/docs")) for n in range(6))
    [winner] = [each.json() for each in answers if each.status_code == 200]
    assert [each.json()["type"] for each in answers if each.status_code != 200] == ["concurrent-change"] * 5
    assert await organization.ok("GET", PATH) == winner


async def test_another_folder_takes_the_name_by_the_version_that_it_has_read(organization: OrganizationClient) -> None:
    first = await organization.ok("PUT", PATH, json=place("/home/ada/docs"))
    assert await organization.refused("PUT", PATH, json=place("/srv/docs")) == (409, "concurrent-change")
    taken = await organization.ok("PUT", PATH, json=place("/srv/docs", is_named=True, replaces=first["version"]))
    assert taken == first | {"path": "/srv/docs", "is_named": True, "version": first["version"] + 1}
    late = place("/home/eve/docs", replaces=first["version"])
    assert await organization.refused("PUT", PATH, json=late) == (409, "concurrent-change")


async def test_a_request_that_is_repeated_because_its_answer_was_lost_is_no_conflict(
    organization: OrganizationClient,
) -> None:
    first = await organization.ok("PUT", PATH, json=place("/home/ada/docs"))
    assert await organization.ok("PUT", PATH, json=place("/home/ada/docs")) == first
    moved = place("/srv/docs", replaces=first["version"])
    assert await organization.ok("PUT", PATH, json=moved) == await organization.ok("PUT", PATH, json=moved)


async def test_who_may_only_read_learns_no_path(organization: OrganizationClient) -> None:
    await organization.ok("PUT", PATH, json=place("/home/ada/docs"))
    reader = await organization.ok("POST", "/api-keys", json={"name": "reader", "scopes": ["read"]})
    headers = {"Authorization": f"Bearer {reader['api_key']}"}
    assert (await organization.http.get(organization.base + PATH, headers=headers)).status_code == 403
