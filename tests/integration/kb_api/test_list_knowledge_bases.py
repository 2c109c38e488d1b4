from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from kb_shared.mongo import index_jobs, knowledge_bases
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import Status
from tests.integration.kb_api.organization import OrganizationClient


async def listed(organization: OrganizationClient, **params: object) -> list[str]:
    answer = await organization.ok("GET", "/knowledge-bases", **params)
    assert answer["total_count"] >= len(answer["knowledge_bases"])
    return [kb["name"] for kb in answer["knowledge_bases"]]


async def test_pages_add_up_to_the_whole_list_in_its_order(organization: OrganizationClient) -> None:
    for name in "edcba":
        await organization.create(name=name)
    pages = [await organization.ok("GET", "/knowledge-bases", skip=skip, limit=2, sort="name") for skip in (0, 2, 4)]
    assert [kb["name"] for page in pages for kb in page["knowledge_bases"]] == list("abcde")
    assert {page["total_count"] for page in pages} == {5}


async def test_the_newest_come_first_unless_another_order_is_asked_for(organization: OrganizationClient) -> None:
    for name in ("first", "second"):
        await organization.create(name=name)
    assert await listed(organization) == ["second", "first"]
    assert await listed(organization, sort="created_at") == ["first", "second"]
    assert await listed(organization, sort="-name") == ["second", "first"]


async def test_the_order_can_be_that_of_documents_and_of_chunks(
    organization: OrganizationClient, new_organization: Callable[..., Awaitable[OrganizationClient]]
) -> None:
    sizes = {"none": [], "few and long": [9, 9], "many and short": [1, 2, 3]}
    for owner in (organization, await new_organization()):
        for name, chunks in sizes.items():
            kb_id = (await owner.create(name=name))["kb_id"]
            for n, count in enumerate(chunks):
                await owner.index(kb_id, f"d{n}", name="One", chunks=count)
    by_documents, by_chunks = ["none", "few and long", "many and short"], ["none", "many and short", "few and long"]
    assert await listed(organization, sort="document_count") == by_documents
    assert await listed(organization, sort="-document_count") == by_documents[::-1]
    assert await listed(organization, sort="chunk_count") == by_chunks
    assert await listed(organization, sort="-chunk_count", skip=1, limit=1) == by_chunks[1:2]


async def test_w16_name_search_is_a_part_of_the_name_taken_as_text_whatever_its_capitals(
    organization: OrganizationClient,
) -> None:
    for name in ("Ärzte (2024)", "a.b", "aXb", "100%", "C:\\temp", "$set"):
        await organization.create(name=name)
    for search, found in {
        "ÄRZTE (": ["Ärzte (2024)"],
        "A.B": ["a.b"],
        ".*": [],
        "%": ["100%"],
        "\\": ["C:\\temp"],
        "$": ["$set"],
        "^": [],
        "(": ["Ärzte (2024)"],
        "[": [],
    }.items():
        assert await listed(organization, name_search=search) == found


async def test_status_selects(organization: OrganizationClient) -> None:
    await organization.create(name="new")
    kb = await organization.stored((await organization.create(name="broken"))["kb_id"])
    await knowledge_bases.set_status(
        organization.database, kb, knowledge_bases.Status.ERROR, only_from=kb.status, reason="why"
    )
    assert await listed(organization, status="error") == ["broken"]
    assert await listed(organization, status="active") == []


async def activated(organization: OrganizationClient, name: str) -> str:
    """Create an active KB without work; return its id."""
    kb = await organization.stored((await organization.create(name=name))["kb_id"])
    await organization.finish_scans()
    await knowledge_bases.set_status(organization.database, kb, Status.ACTIVE, only_from=kb.status)
    return kb.kb_id


async def status_of(organization: OrganizationClient, kb_id: str) -> str:
    shown: str = (await organization.ok("GET", f"/knowledge-bases/{kb_id}"))["status"]
    assert [
        each["status"]
        for each in (await organization.ok("GET", "/knowledge-bases"))["knowledge_bases"]
        if each["kb_id"] == kb_id
    ] == [shown]
    return shown


async def test_a_knowledge_base_is_indexing_until_the_last_document_is_done(organization: OrganizationClient) -> None:
    kb_id = await activated(organization, "busy")
    assert await status_of(organization, kb_id) == "active"
    command = await organization.open_job(kb_id, "d1")
    assert await status_of(organization, kb_id) == "indexing"
    job = await organization.claim(command)
    assert await status_of(organization, kb_id) == "indexing"
    # Documents don't write the row of their KB.
    assert (await organization.stored(kb_id)).status is Status.ACTIVE
    await index_jobs.finish(organization.database, job)
    assert await status_of(organization, kb_id) == "active"


async def test_a_job_that_nothing_is_done_for_by_itself_keeps_no_knowledge_base_indexing(
    organization: OrganizationClient,
) -> None:
    kb_id = await activated(organization, "done")
    await organization.failed_job(kb_id, "d1", error_type="x", error_message="y")
    await organization.waiting_job(kb_id, "d2")
    assert await status_of(organization, kb_id) == "active"


async def test_filter_and_order_are_those_of_the_status_that_is_shown(
    organization: OrganizationClient, new_organization: Callable[..., Awaitable[OrganizationClient]]
) -> None:
    await activated(organization, "done")
    await organization.open_job(await activated(organization, "busy"), "d1")
    other = await new_organization()
    await other.open_job(await activated(other, "of others"), "d1")
    await organization.create(name="new")
    assert await listed(organization, status="indexing") == ["busy"]
    assert await listed(organization, status="active") == ["done"]
    assert await listed(organization, sort="status") == ["done", "new", "busy"]
    answer = await organization.ok("GET", "/knowledge-bases", status="indexing", limit=1)
    assert answer["total_count"] == 1


async def test_a_status_costs_one_look_up_in_an_index_however_many_jobs_there_are(
    organization: OrganizationClient,
) -> None:
    kb_id = await activated(organization, "busy")
    for n in range(30):
        await organization.open_job(kb_id, f"d{n}")
    await organization.running_job(kb_id, "d30")
    pipeline = [{"$match": {"_id": kb_id}}, index_jobs.build_first_open_stage(organization.organization_id)]
    command = {"aggregate": knowledge_bases.NAME, "pipeline": pipeline, "cursor": {}}
    explained = await organization.database.command({"explain": command, "verbosity": "executionStats"})
    [lookup] = [stage for stage in explained["stages"] if "$lookup" in stage]
    assert lookup["indexesUsed"] == ["kb_id_1_state_1_document_id_1"]
    assert lookup["totalDocsExamined"] == 1


@pytest.mark.parametrize(
    "params",
    [
        {"limit": 0},
        {"limit": 101},
        {"skip": -1},
        {"skip": 10**30},
        {"status": "deleting"},
        {"sort": "tag_ids"},
        {"name_search": ""},
        {"name_search": "a\x00"},
        {"page": 1},
    ],
)
async def test_a_parameter_that_makes_no_sense_is_refused(
    organization: OrganizationClient, params: dict[str, object]
) -> None:
    assert await organization.refused("GET", "/knowledge-bases", **params) == (422, "validation-error")


async def test_counts_are_those_of_what_is_indexed(organization: OrganizationClient) -> None:
    kb_id = (await organization.create())["kb_id"]
    await organization.index(kb_id, "d1", name="One", chunks=3)
    await organization.index(kb_id, "d2", name="Two", chunks=4)
    for kb in (
        await organization.ok("GET", f"/knowledge-bases/{kb_id}"),
        (await organization.ok("GET", "/knowledge-bases"))["knowledge_bases"][0],
    ):
        assert (kb["document_count"], kb["chunk_count"]) == (2, 7)


async def test_another_organizations_are_not_there(
    organization: OrganizationClient, new_organization: Callable[..., Awaitable[OrganizationClient]]
) -> None:
    kb_id = (await organization.create(name="secret"))["kb_id"]
    other = await new_organization()
    assert await listed(other, name_search="secret") == []
    assert await other.refused("GET", f"/knowledge-bases/{kb_id}") == (404, "not-found")


@pytest.mark.parametrize("kb_id", ["x", "0" * 24, "0" * 25, "G" * 24, "%00", "Ω"])
async def test_w16_an_id_that_is_malformed_or_missing_is_the_same_404(
    organization: OrganizationClient, kb_id: str
) -> None:
    answers = [
        await organization.request("GET", f"/knowledge-bases/{each}") for each in (kb_id, "65f000000000000000000000")
    ]
    bodies = [{**answer.json(), "request_id": None} for answer in answers]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert bodies[0] == bodies[1]


async def test_knowledge_bases_are_found_by_tag_and_in_the_order_of_their_last_search(
    organization: OrganizationClient,
) -> None:
    await organization.tag("a", "b")
    ids = {}
    for name, tag_ids in (("first", ["a"]), ("second", ["a", "b"]), ("third", ["b"])):
        ids[name] = (await organization.create(name=name, tag_ids=tag_ids))["kb_id"]
    assert await listed(organization, tag_id="a", sort="name") == ["first", "second"]
    for name in ("second", "first"):
        key = KnowledgeBaseKey(organization.organization_id, ids[name])
        await knowledge_bases.note_search(organization.database, key, at=datetime.now(UTC))
    assert await listed(organization, sort="-last_searched_at") == ["first", "second", "third"]
