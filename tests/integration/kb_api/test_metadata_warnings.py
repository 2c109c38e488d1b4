"""Metadata that can't be stored are left out of what is sent over HTTP, as on Kafka, and the answer says so."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kb_contracts.documents import MetadataChanged, OcrCompleted
from kb_shared.mongo.api_keys import Scope
from tests.integration.kb_api.organization import OrganizationClient
from tests.integration.kb_api.test_documents import BODY, accepted, handle

NewOrganization = Callable[..., Awaitable[OrganizationClient]]
BAD: dict[str, Any] = {"year": 2026, "authors": ["a"], "a b": "text", "none": None}
FIELDS = ["metadata.authors", "metadata.?", "metadata.none"]


def fields_of(warnings: Any) -> list[str]:
    return [each["field"] for each in warnings]


async def test_every_way_to_send_metadata_answers_what_was_left_out(organization: OrganizationClient) -> None:
    put = await organization.ok("PUT", "/documents/d1", json={**BODY, "metadata": BAD})
    patched = await organization.ok("PATCH", "/documents/d1/metadata", json={"metadata": BAD})
    entries = [
        {**BODY, "document_id": "d2", "metadata": BAD},
        {"action": "replace_metadata", "document_id": "d1", "metadata": BAD},
        {"action": "replace_tags", "document_id": "d1", "tag_ids": []},
    ]
    batch = await organization.ok("POST", "/documents:batch", json={"documents": entries})
    assert [fields_of(each["warnings"]) for each in (put, patched, *batch["outcomes"])] == [FIELDS] * 4 + [[]]
    assert batch["refused_count"] == 0
    assert put["warnings"][0]["message"].endswith(", not a list of 1 item")
    events = [event for event, _ in await accepted(organization)]
    described = [event for event in events if isinstance(event, OcrCompleted | MetadataChanged)]
    assert [event.metadata for event in described] == [{"year": 2026}] * 4
    assert [fields_of(map(dict, event.metadata_warnings or ())) for event in described] == [FIELDS] * 4


async def test_the_document_shows_the_warnings_until_metadata_without_them_come(
    organization: OrganizationClient,
) -> None:
    await organization.tag("offers")
    kb = await organization.create(tag_ids=["offers"])
    explain = f"/knowledge-bases/{kb['kb_id']}/documents/d1/explain"

    async def shown() -> list[Any]:
        await handle(organization)
        document = await organization.ok("GET", "/documents/d1")
        explained = await organization.ok("GET", explain)
        [listed] = (await organization.ok("GET", "/documents"))["documents"]
        [in_kb] = (await organization.ok("GET", f"/knowledge-bases/{kb['kb_id']}/documents", status="all"))["documents"]
        assert document["warnings"] == explained["document"]["warnings"]
        assert listed["has_warnings"] is in_kb["has_warnings"] is bool(document["warnings"])
        return fields_of(document["warnings"])

    await organization.ok("PUT", "/documents/d1", json={**BODY, "metadata": BAD})
    assert await shown() == FIELDS
    await organization.ok("PATCH", "/documents/d1/tags", json={"tag_ids": ["offers", "more"]})
    assert await shown() == FIELDS, "another facet"
    await organization.ok("PATCH", "/documents/d1/metadata", json={"metadata": {"year": 2026}})
    assert await shown() == []


@pytest.mark.parametrize("in_batch", [False, True], ids=["alone", "in a batch"])
async def test_the_document_shows_what_of_its_file_could_not_be_read_until_another_text_comes(
    in_batch: bool, organization: OrganizationClient
) -> None:
    warned = {**BODY, "reading_warnings": ["2 of 9 pages are pictures"]}
    if in_batch:
        entry = {**warned, "document_id": "d1"}
        assert (await organization.ok("POST", "/documents:batch", json={"documents": [entry]}))["refused_count"] == 0
    else:
        await organization.ok("PUT", "/documents/d1", json=warned)
    await organization.ok("PATCH", "/documents/d1/metadata", json={"metadata": {"year": 2026}})
    await handle(organization)
    shown = (await organization.ok("GET", "/documents/d1"))["warnings"]
    assert shown == [{"field": "text", "message": "2 of 9 pages are pictures"}]
    assert [each["has_warnings"] for each in (await organization.ok("GET", "/documents"))["documents"]] == [True]
    await organization.ok("PUT", "/documents/d1", json={**BODY, "text": "all of it"})
    await handle(organization)
    assert (await organization.ok("GET", "/documents/d1"))["warnings"] == []


@pytest.mark.parametrize("metadata", ["{}", [], 7, True])
async def test_metadata_that_are_no_object_cost_a_document_nothing_and_a_change_is_refused(
    organization: OrganizationClient, metadata: Any
) -> None:
    answer = await organization.ok("PUT", "/documents/d1", json={**BODY, "metadata": metadata})
    assert fields_of(answer["warnings"]) == ["metadata"]
    refused = await organization.request("PATCH", "/documents/d1/metadata", json={"metadata": metadata})
    assert (refused.status_code, fields_of(refused.json()["fields"])) == (422, ["metadata"])


async def test_a_strict_organization_gets_a_422_with_the_same_words(
    organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    other = await new_organization()
    warned = (await organization.ok("PUT", "/documents/d1", json={**BODY, "metadata": BAD}))["warnings"]
    assert await organization.ok("PUT", "/settings", json={"strict_metadata": True}) == {"strict_metadata": True}
    assert await organization.ok("GET", "/settings") == {"strict_metadata": True}
    for method, path, body in (
        ("PUT", "/documents/d1", {**BODY, "metadata": BAD}),
        ("PATCH", "/documents/d1/metadata", {"metadata": BAD}),
    ):
        refused = await organization.request(method, path, json=body)
        assert (refused.status_code, refused.json()["type"]) == (422, "validation-error")
        assert refused.json()["fields"] == warned
    entry = {**BODY, "document_id": "d2", "metadata": BAD}
    [outcome] = (await organization.ok("POST", "/documents:batch", json={"documents": [entry]}))["outcomes"]
    assert outcome["problem"]["fields"] == warned
    assert len(await accepted(organization)) == 1
    assert await other.ok("GET", "/settings") == {"strict_metadata": False}
    await other.ok("PUT", "/documents/d1", json={**BODY, "metadata": BAD})
    await organization.ok("PUT", "/settings", json={"strict_metadata": False})
    await organization.ok("PUT", "/documents/d2", json={**BODY, "metadata": BAD})


async def test_only_an_admin_changes_the_settings_and_the_audit_log_says_who(
    organization: OrganizationClient, new_organization: NewOrganization
) -> None:
    writer = await new_organization(Scope.READ, Scope.WRITE, organization_id=organization.organization_id)
    assert await writer.refused("PUT", "/settings", json={"strict_metadata": True}) == (403, "missing-scope")
    assert await writer.ok("GET", "/settings") == {"strict_metadata": False}
    for body in ({}, {"strict_metadata": "yes"}, {"strict_metadata": True, "other": 1}):
        assert await organization.refused("PUT", "/settings", json=body) == (422, "validation-error")
    await organization.ok("PUT", "/settings", json={"strict_metadata": True})
    last = (await organization.ok("GET", "/audit", outcome="succeeded"))["entries"][0]
    assert (last["operation"], last["key_id"]) == ("organizations.put_settings", organization.key.split("_")[1])


async def test_a_repeated_request_gets_the_same_warnings(organization: OrganizationClient) -> None:
    entry = {**BODY, "document_id": "d1", "metadata": BAD}
    headers = {"Authorization": f"Bearer {organization.key}", "Idempotency-Key": "k-1"}
    answers = [
        await organization.http.post(
            f"{organization.base}/documents:batch", json={"documents": [entry]}, headers=headers
        )
        for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()
    assert fields_of(answers[1].json()["outcomes"][0]["warnings"]) == FIELDS
