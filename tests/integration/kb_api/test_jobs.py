"""Starting the work on a KB again, watching it, stopping it; pausing and resuming."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kb_indexer.backfill import BackfillRunner
from kb_shared.messaging.index_requests import IndexRequests
from kb_shared.mongo import index_jobs
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey
from tests.integration.indexer.support import RecordingProducer
from tests.integration.kb_api.conftest import NewOrganization
from tests.integration.kb_api.organization import INDEXER, OrganizationClient
from tests.integration.kb_api.test_usage import charged
from tests.stored_jobs import jobs_of_kb


@pytest.fixture
async def kb_id(organization: OrganizationClient, living: None) -> str:
    """An active KB with two documents indexed and two that failed."""
    await organization.tag("a")
    kb_id: str = (await organization.create(tag_ids=["a"]))["kb_id"]
    await organization.until_status(kb_id, "indexing")
    for document_id in ("d1", "d2"):
        await organization.project(document_id, name=document_id, tag_ids=("a",))
        await organization.index(kb_id, document_id, name=document_id, chunks=1)
    await organization.finish_scans()
    await organization.until_status(kb_id, "active")
    for document_id in ("f1", "f2"):
        await organization.project(document_id, name=document_id, tag_ids=("a",))
        await organization.failed_job(kb_id, document_id, error_type="document_unfit", error_message="too long")
    return kb_id


async def scan(organization: OrganizationClient) -> None:
    """Scan as the indexer does, without a consumer that handles the commands."""
    requests = IndexRequests(organization.database, RecordingProducer(), topic_prefix="", source="/kb/test")
    runner = BackfillRunner(organization.database, requests, lease=index_jobs.UNCLAIMED_GRACE)
    while await runner.turn():
        pass


async def job_of(organization: OrganizationClient, kb_id: str, job_id: str) -> dict[str, Any]:
    return await organization.ok("GET", f"/knowledge-bases/{kb_id}/jobs/{job_id}")


async def finish(organization: OrganizationClient, kb_id: str, document_id: str) -> None:
    """As the indexer does when a document is indexed."""
    job = await index_jobs.find(organization.database, MembershipKey(organization.organization_id, kb_id, document_id))
    assert job is not None
    assert await index_jobs.finish(organization.database, await organization.claim(job.command()))


async def test_failed_documents_are_tried_again_and_the_job_shows_its_progress(
    organization: OrganizationClient, kb_id: str
) -> None:
    started = await organization.ok("POST", f"/knowledge-bases/{kb_id}/retry-failed")
    assert (started["status"], started["retry_count"]) == ("running", 2)
    await organization.until_status(kb_id, "indexing")
    before = await job_of(organization, kb_id, started["job_id"])
    assert (before["kind"], before["status"], before["total"], before["done"]) == ("retry_failed", "running", 2, 0)

    await scan(organization)
    listed = await organization.ok("GET", f"/knowledge-bases/{kb_id}/documents", status="pending")
    assert [(one["document_id"], one["attempts"], one["error"]) for one in listed["documents"]] == [
        ("f1", 0, None),
        ("f2", 0, None),
    ]
    await finish(organization, kb_id, "f1")
    halfway = await job_of(organization, kb_id, started["job_id"])
    assert (halfway["status"], halfway["done"], halfway["failed"]) == ("running", 1, 0)
    assert halfway["eta_s"] is None, "no pace is known"
    now = datetime.now(UTC)
    for n in range(5):
        await charged(organization, 4, now - timedelta(seconds=4 * n), kb_id=kb_id)
    of_kb = await organization.ok("GET", f"/knowledge-bases/{kb_id}/stats")
    assert (await job_of(organization, kb_id, started["job_id"]))["eta_s"] == of_kb["eta_s"] > 0

    await organization.failed_job(kb_id, "f2", error_type="document_unfit", error_message="still")
    over = await job_of(organization, kb_id, started["job_id"])
    assert (over["status"], over["done"], over["failed"], over["eta_s"]) == ("done", 2, 1, None)
    await organization.until_status(kb_id, "active")


async def test_two_who_start_the_same_job_get_one(organization: OrganizationClient, kb_id: str) -> None:
    for path in ("retry-failed", "reindex"):
        started = await asyncio.gather(*(organization.ok("POST", f"/knowledge-bases/{kb_id}/{path}") for _ in range(3)))
        assert len({one["job_id"] for one in started}) == 1, path
    await scan(organization)
    again = await organization.ok("POST", f"/knowledge-bases/{kb_id}/reindex")
    assert again["job_id"] == started[0]["job_id"], "its documents are not done yet"


async def test_with_nothing_failed_there_is_nothing_to_retry(organization: OrganizationClient) -> None:
    kb_id = (await organization.create())["kb_id"]
    answer = await organization.ok("POST", f"/knowledge-bases/{kb_id}/retry-failed")
    assert (answer["status"], answer["retry_count"], answer["job_id"]) == ("done", 0, None)


async def test_a_document_that_fails_after_a_retry_has_begun_gets_a_retry_of_its_own(
    organization: OrganizationClient, kb_id: str
) -> None:
    first = await organization.ok("POST", f"/knowledge-bases/{kb_id}/retry-failed")
    await scan(organization)
    await organization.failed_job(kb_id, "f3", error_type="document_unfit", error_message="late")
    second = await organization.ok("POST", f"/knowledge-bases/{kb_id}/retry-failed")
    assert (second["job_id"] != first["job_id"], second["retry_count"]) == (True, 1)


async def test_a_cancelled_reindexing_begins_no_further_document_and_loses_no_request(
    organization: OrganizationClient, kb_id: str
) -> None:
    started = await organization.ok("POST", f"/knowledge-bases/{kb_id}/reindex")
    assert started["document_count"] == 4
    await scan(organization)
    begun = await index_jobs.find(organization.database, MembershipKey(organization.organization_id, kb_id, "d1"))
    assert begun is not None
    await organization.claim(begun.command())

    path = f"/knowledge-bases/{kb_id}/jobs/{started['job_id']}"
    assert (await organization.ok("DELETE", path))["status"] == "cancelled"
    assert (await organization.ok("DELETE", path))["status"] == "cancelled", "again"
    jobs = {
        job.document_id: (job.state, job.force)
        async for job in jobs_of_kb(organization.database, KnowledgeBaseKey(organization.organization_id, kb_id))
    }
    assert jobs == {
        "d1": (IndexJobState.RUNNING, True),
        "d2": (IndexJobState.PENDING, False),
        "f1": (IndexJobState.PENDING, False),
        "f2": (IndexJobState.PENDING, False),
    }
    await scan(organization)
    renewed = await organization.ok("POST", f"/knowledge-bases/{kb_id}/reindex")
    assert renewed["job_id"] != started["job_id"]


async def test_a_scan_after_resuming_cannot_be_cancelled(organization: OrganizationClient, kb_id: str) -> None:
    await organization.ok("POST", f"/knowledge-bases/{kb_id}/pause")
    await organization.ok("POST", f"/knowledge-bases/{kb_id}/resume")
    row = await organization.database["backfills"].find_one({"kb_id": kb_id, "kind": "resume"})
    assert row is not None
    path = f"/knowledge-bases/{kb_id}/jobs/{row['_id']}"
    assert await organization.refused("DELETE", path) == (409, "job-not-cancellable")


async def test_a_job_is_known_by_its_own_knowledge_base_only(
    organization: OrganizationClient, new_organization: NewOrganization, kb_id: str
) -> None:
    job_id = (await organization.ok("POST", f"/knowledge-bases/{kb_id}/reindex"))["job_id"]
    other = (await organization.create())["kb_id"]
    assert await organization.refused("GET", f"/knowledge-bases/{other}/jobs/{job_id}") == (404, "not-found")
    assert await organization.refused("GET", f"/knowledge-bases/{kb_id}/jobs/nonsense") == (404, "not-found")
    stranger = await new_organization()
    assert await stranger.refused("GET", f"/knowledge-bases/{kb_id}/jobs/{job_id}") == (404, "not-found")


async def test_pausing_and_resuming_show_and_may_be_repeated(organization: OrganizationClient, kb_id: str) -> None:
    first, second = [await organization.ok("POST", f"/knowledge-bases/{kb_id}/pause") for _ in range(2)]
    assert first["paused_at"] is not None
    assert first == second == await organization.ok("GET", f"/knowledge-bases/{kb_id}")
    assert first["status"] == "active"
    for _ in range(2):
        assert (await organization.ok("POST", f"/knowledge-bases/{kb_id}/resume"))["paused_at"] is None
    assert await organization.database["backfills"].count_documents({"kb_id": kb_id, "kind": "resume"}) == 1
    await scan(organization)
    await organization.until_status(kb_id, "active")


async def test_a_knowledge_base_is_not_active_while_it_keeps_documents_back(
    organization: OrganizationClient, kb_id: str
) -> None:
    await organization.ok("POST", f"/knowledge-bases/{kb_id}/reindex")
    await organization.ok("POST", f"/knowledge-bases/{kb_id}/pause")
    await scan(organization)
    await organization.database[index_jobs.NAME].update_many(
        {"kb_id": kb_id}, {"$set": {"state": IndexJobState.PAUSED}}
    )
    listed = await organization.ok("GET", f"/knowledge-bases/{kb_id}/documents", status="paused")
    assert listed["total_count"] == 4
    document_id = listed["documents"][0]["document_id"]
    explained = await organization.ok("GET", f"/knowledge-bases/{kb_id}/documents/{document_id}/explain")
    assert explained["knowledge_base_paused_at"] is not None
    await organization.api.life_cycle.advance_all()
    assert (await organization.ok("GET", f"/knowledge-bases/{kb_id}"))["status"] == "indexing"


async def test_work_whose_worker_died_is_pending_and_a_parked_document_says_why_and_until_when(
    organization: OrganizationClient, kb_id: str
) -> None:
    async def listed(status: str) -> list[dict[str, Any]]:
        answer = await organization.ok("GET", f"/knowledge-bases/{kb_id}/documents", status=status)
        return [one for one in answer["documents"] if one["document_id"] in ("dead", "parked", "fresh")]

    dead = await organization.open_job(kb_id, "dead")
    assert (await index_jobs.claim_all(organization.database, [dead], owner=INDEXER, lease=timedelta(0))).get(dead)
    parked = await organization.running_job(kb_id, "parked")
    await index_jobs.postpone(
        organization.database,
        parked,
        delay=timedelta(seconds=30),
        error_type="rate_limited",
        error_message="the provider limits us",
        count_attempt=False,
    )
    await organization.open_job(kb_id, "fresh")

    assert await listed("running") == []
    for status in ("pending", "all"):
        shown = {one["document_id"]: one for one in await listed(status)}
        assert {one["status"] for one in shown.values()} == {"pending"}
        assert (shown["parked"]["attempts"], shown["parked"]["error"]) == (
            0,
            {"type": "rate_limited", "message": "the provider limits us"},
        )
        assert shown["parked"]["next_attempt_at"] is not None
        assert (shown["dead"]["attempts"], shown["dead"]["next_attempt_at"]) == (1, None)
        assert (shown["fresh"]["attempts"], shown["fresh"]["next_attempt_at"]) == (0, None)


async def test_a_document_that_failed_is_tried_again_alone(organization: OrganizationClient, kb_id: str) -> None:
    path = f"/knowledge-bases/{kb_id}/documents"
    await organization.ok("POST", f"{path}/f1/retry")
    rows = organization.database[index_jobs.NAME].find({"kb_id": kb_id})
    jobs = {row["document_id"]: row async for row in rows}
    assert (jobs["f1"]["state"], jobs["f1"]["queued"], jobs["f1"]["error_type"]) == ("pending", True, None)
    assert jobs["f2"]["state"] == "failed"
    assert await organization.refused("POST", f"{path}/d1/retry") == (409, "document-not-failed")
    assert await organization.refused("POST", f"{path}/unknown/retry") == (404, "not-found")


async def test_a_document_is_indexed_again_although_nothing_has_changed(
    organization: OrganizationClient, kb_id: str
) -> None:
    path = f"/knowledge-bases/{kb_id}/documents"
    await organization.ok("POST", f"{path}/d1/reindex")
    job = await organization.database[index_jobs.NAME].find_one({"kb_id": kb_id, "document_id": "d1"})
    assert job is not None
    assert (job["state"], job["force"], job["queued"]) == ("pending", True, True)
    # A document without a tag of the KB does not come into it.
    await organization.project("elsewhere", name="elsewhere", tag_ids=("b",))
    assert await organization.refused("POST", f"{path}/elsewhere/reindex") == (404, "not-found")


async def test_the_jobs_of_a_knowledge_base_are_listed_newest_first(
    organization: OrganizationClient, kb_id: str
) -> None:
    started = await organization.ok("POST", f"/knowledge-bases/{kb_id}/retry-failed")
    listed = await organization.ok("GET", f"/knowledge-bases/{kb_id}/jobs")
    assert [job["kind"] for job in listed["jobs"]] == ["retry_failed", "scan"]
    assert listed["total_count"] == 2
    assert listed["jobs"][0] == await job_of(organization, kb_id, started["job_id"])
    second = await organization.ok("GET", f"/knowledge-bases/{kb_id}/jobs", skip=1, limit=1)
    assert second["jobs"] == listed["jobs"][1:]
    of_all = await organization.ok("GET", "/jobs", limit=1)
    assert of_all["jobs"][0].items() >= {**listed["jobs"][0], "kb_id": kb_id}.items()
    rest = await organization.ok("GET", "/jobs", cursor=of_all["next_cursor"])
    assert [each["kb_id"] for each in rest["jobs"]].count(kb_id) == 1
