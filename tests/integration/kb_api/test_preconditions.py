"""Two editors of a KB don't overwrite each other: `ETag` and `If-Match`."""

from typing import Any

import httpx
import pytest

from kb_shared.concurrency.concurrent_tasks import run_all
from tests.integration.kb_api.organization import OrganizationClient


async def put(organization: OrganizationClient, kb_id: str, if_match: str | None, **body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {organization.key}"} | ({} if if_match is None else {"If-Match": if_match})
    return await organization.http.put(f"{organization.base}/knowledge-bases/{kb_id}", headers=headers, json=body)


async def etag(organization: OrganizationClient, kb_id: str) -> str:
    return str((await organization.request("GET", f"/knowledge-bases/{kb_id}")).headers["etag"])


async def test_of_editors_who_have_read_the_same_version_one_succeeds(organization: OrganizationClient) -> None:
    created = await organization.request("POST", "/knowledge-bases", json={"name": "n"})
    kb_id, read = created.json()["kb_id"], created.headers["etag"]
    answers = await run_all(put(organization, kb_id, read, description=f"of editor {n}") for n in range(6))
    [winner] = [answer for answer in answers if answer.status_code == 200]
    losers = [answer.json()["type"] for answer in answers if answer.status_code == 412]
    assert losers == ["precondition-failed"] * 5
    now = await organization.request("GET", f"/knowledge-bases/{kb_id}")
    assert (now.json()["description"], now.headers["etag"]) == (winner.json()["description"], winner.headers["etag"])
    # What changes nothing overwrites nothing, but its editor has not seen the newest version either.
    assert (await put(organization, kb_id, read, description=now.json()["description"])).status_code == 412


async def test_without_if_match_any_version_is_overwritten(organization: OrganizationClient) -> None:
    kb_id = (await organization.create())["kb_id"]
    for if_match in (None, "*"):
        before = await etag(organization, kb_id)
        assert (await put(organization, kb_id, if_match, description=str(if_match))).status_code == 200
        assert await etag(organization, kb_id) != before
    listed = f'"77", {await etag(organization, kb_id)}'
    assert (await put(organization, kb_id, listed, name="m")).status_code == 200


async def test_work_of_the_system_changes_no_etag_and_a_knowledge_base_of_an_older_version_has_one(
    organization: OrganizationClient,
) -> None:
    await organization.tag("t")
    kb_id = (await organization.create(tag_ids=["t"]))["kb_id"]
    await organization.database["knowledge_bases"].update_one({"_id": kb_id}, {"$unset": {"version": 1}})
    before = await etag(organization, kb_id)
    await organization.ok("POST", f"/knowledge-bases/{kb_id}/reindex")
    assert await etag(organization, kb_id) == before
    changed = await put(organization, kb_id, before, name="m")
    assert changed.status_code == 200
    assert changed.headers["etag"] not in {before, ""}
    assert (await put(organization, kb_id, before, name="o")).status_code == 412


@pytest.mark.parametrize("if_match", ["3", '"3', "W/3", '"3",', ""])
async def test_what_is_no_etag_is_refused(organization: OrganizationClient, if_match: str) -> None:
    kb_id = (await organization.create())["kb_id"]
    answer = await put(organization, kb_id, if_match, name="m")
    assert (answer.status_code, answer.json()["type"]) == (422, "validation-error")


@pytest.mark.parametrize("if_match", ['W/"0"', '"of-another-system"', '"99999999999999999999"'])
async def test_an_etag_that_can_match_nothing_matches_nothing(organization: OrganizationClient, if_match: str) -> None:
    kb_id = (await organization.create())["kb_id"]
    assert (await put(organization, kb_id, if_match, name="m")).status_code == 412
