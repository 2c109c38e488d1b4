"""Checks of indexing jobs, and of knowledge bases that are indexed again, paused and resumed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kb_contracts.api.knowledge_bases import KnowledgeBaseView
from kb_shared.mongo.database import Row
from tests.e2e.operations.comparison import assert_holds, assert_shows
from tests.e2e.operations.knowledge_bases import KB_ID, stored_knowledge_base
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import (
    CHANGING,
    CHANGING_TAG,
    LONG,
    StockedOrganization,
)


async def indexed_at(organization: StockedOrganization) -> Any:
    return (await organization.row("document_index", document_id=CHANGING))["indexed_at"]


async def until_indexed_after(organization: StockedOrganization, time: Any) -> None:
    await organization.until_row("document_index", document_id=CHANGING, indexed_at={"$gt": time})


@checks("knowledge_bases.reindex")
async def check_reindex(organization: StockedOrganization) -> None:
    kb_id = organization.changing_kb_id
    await organization.until_active(kb_id)
    before = await indexed_at(organization)
    answer = await organization.client.knowledge_bases.reindex(kb_id)
    row = await organization.row("backfills", _id=answer.job_id)
    assert_holds(row, kb_id=kb_id, kind="reindex")
    documents = await organization.rows("documents", tag_ids=CHANGING_TAG, alive=True)
    assert (answer.status, answer.document_count) == ("running", row["total"])
    assert row["total"] == len(documents) == 1
    await until_indexed_after(organization, before)
    await organization.until_row("backfills", _id=answer.job_id, state="done")


@checks("knowledge_bases.reindex_document")
async def check_reindex_document(organization: StockedOrganization) -> None:
    kb_id = organization.changing_kb_id
    await organization.until_active(kb_id)
    before = await indexed_at(organization)
    answer = await organization.client.knowledge_bases.reindex_document(kb_id, document_id=CHANGING)
    assert (answer.kb_id, answer.document_id) == (kb_id, CHANGING)
    await until_indexed_after(organization, before)


@checks("knowledge_bases.retry_failed")
async def check_retry_failed(organization: StockedOrganization) -> None:
    kb_id = organization.strict_kb_id
    before = await _failed_job(organization)
    answer = await organization.client.knowledge_bases.retry_failed(kb_id)
    row = await organization.row("backfills", _id=answer.job_id)
    assert_holds(row, kb_id=kb_id, kind="retry_failed")
    assert (answer.status, answer.retry_count, row["total"]) == ("running", 1, 1)
    await _until_failed_again(organization, before)


@checks("knowledge_bases.retry_document")
async def check_retry_document(organization: StockedOrganization) -> None:
    kb_id = organization.strict_kb_id
    before = await _failed_job(organization)
    answer = await organization.client.knowledge_bases.retry_document(kb_id, document_id=LONG)
    assert (answer.kb_id, answer.document_id) == (kb_id, LONG)
    await _until_failed_again(organization, before)


async def _failed_job(organization: StockedOrganization) -> Row:
    await organization.until_active(organization.strict_kb_id)
    return await organization.until_row("index_jobs", document_id=LONG, state="failed")


async def _until_failed_again(organization: StockedOrganization, before: Row) -> None:
    """Wait until another attempt on `LONG` has failed, the first one of a new request."""
    row = await organization.until_row(
        "index_jobs", document_id=LONG, state="failed", token={"$ne": before["token"]}, attempts=1
    )
    assert row["requested_at"] > before["requested_at"]


@asynccontextmanager
async def paused(organization: StockedOrganization) -> AsyncIterator[KnowledgeBaseView]:
    """Pause the changing KB, yield the answer, and resume the KB, so that other checks can use it."""
    await organization.until_active(organization.changing_kb_id)
    answer = await organization.client.knowledge_bases.pause(organization.changing_kb_id)
    try:
        yield answer
    finally:
        await organization.client.knowledge_bases.resume(organization.changing_kb_id)


@checks("knowledge_bases.pause")
async def check_pause(organization: StockedOrganization) -> None:
    kb_id = organization.changing_kb_id
    async with paused(organization) as answer:
        stored = await stored_knowledge_base(organization, kb_id)
        slots = await organization.rows("kb_slots", kb_id=kb_id)
    assert_shows(answer, stored, names=KB_ID)
    assert stored["paused_at"] is not None
    assert {slot["paused"] for slot in slots} == {True}


@checks("knowledge_bases.batch")
async def check_batch_of_actions(organization: StockedOrganization) -> None:
    kb_id = organization.changing_kb_id
    await organization.until_active(kb_id)
    before = await indexed_at(organization)
    tag_ids = (await organization.row("knowledge_bases", _id=kb_id))["tag_ids"]
    answer = await organization.client.knowledge_bases.batch(
        [
            {"kb_id": kb_id, "action": "pause"},
            {"kb_id": "0" * 24, "action": "pause"},
            {"kb_id": kb_id, "action": "resume"},
            {"kb_id": kb_id, "action": "reindex"},
            {"kb_id": kb_id, "action": "replace_tags", "tag_ids": tag_ids},
        ]
    )
    assert (answer.accepted_count, answer.refused_count) == (4, 1)
    _, refused, _, reindexed, _ = answer.outcomes
    assert refused.problem is not None
    assert (refused.kb_id, refused.problem.type) == ("0" * 24, "not-found")
    assert_holds(await organization.row("backfills", _id=reindexed.job_id), kb_id=kb_id, kind="reindex")
    assert_holds(await organization.row("knowledge_bases", _id=kb_id), paused_at=None, tag_ids=tag_ids)
    await until_indexed_after(organization, before)
    await organization.until_row("backfills", _id=reindexed.job_id, state="done")


@checks("knowledge_bases.rebuild_search_indexes")
async def check_rebuild_search_indexes(organization: StockedOrganization) -> None:
    kb_id = organization.changing_kb_id
    await organization.until_active(kb_id)
    before = await organization.row("knowledge_bases", _id=kb_id)
    answer = await organization.client.knowledge_bases.rebuild_search_indexes(kb_id)
    assert (answer.kb_id, answer.index_rebuild) == (kb_id, "requested")
    await organization.until_row(
        "knowledge_bases", _id=kb_id, index_rebuild=None, index_builds=before["index_builds"] + 1
    )
    stats = await organization.client.knowledge_bases.get_stats(kb_id)
    assert {index.status for index in stats.search_indexes} == {"READY"}


@checks("knowledge_bases.resume")
async def check_resume(organization: StockedOrganization) -> None:
    kb_id = organization.changing_kb_id
    await organization.until_active(kb_id)
    await organization.client.knowledge_bases.pause(kb_id)
    answer = await organization.client.knowledge_bases.resume(kb_id)
    # It is active again as soon as nothing waits any more.
    stored = await stored_knowledge_base(organization, kb_id)
    assert_shows(answer, stored | {"status": "indexing", "updated_at": answer.updated_at}, names=KB_ID)
    assert stored["paused_at"] is None
    assert {slot["paused"] for slot in await organization.rows("kb_slots", kb_id=kb_id)} == {False}
    assert "resume" in {row["kind"] for row in await organization.rows("backfills", kb_id=kb_id)}


def shown_job(row: Row, *, documents: int) -> Row:
    """Return a job that is over, on which all documents are done."""
    return {**row, "status": "done", "total": documents, "done": documents, "failed": 0, "eta_s": None}


@checks("jobs.list")
async def check_list_jobs(organization: StockedOrganization) -> None:
    answer = await organization.client.jobs.list(organization.kb_id)
    rows = (await organization.rows("backfills", kb_id=organization.kb_id))[::-1]
    assert answer.total_count == len(rows) > 0
    for job, row in zip(answer.jobs, rows, strict=True):
        assert_shows(job, shown_job(row, documents=row["queued"]), names={"job_id": "_id"})


@checks("jobs.list_all")
async def check_list_all_jobs(organization: StockedOrganization) -> None:
    kb_id, name = organization.kb_id, (await organization.client.knowledge_bases.get(organization.kb_id)).name
    answer = await organization.client.jobs.list_all(limit=100)
    rows = (await organization.rows("backfills", kb_id=kb_id))[::-1]
    listed = [job for job in answer.jobs if job.kb_id == kb_id]
    assert answer.total_count >= len(listed) > 0
    for job, row in zip(listed, rows, strict=True):
        assert_shows(job, {**shown_job(row, documents=row["queued"]), "kb_name": name}, names={"job_id": "_id"})


@checks("jobs.get")
async def check_get_job(organization: StockedOrganization) -> None:
    kb_id = organization.changing_kb_id
    await organization.until_active(kb_id)
    started = await organization.client.knowledge_bases.reindex(kb_id)
    assert started.job_id is not None
    row = await organization.until_row("backfills", _id=started.job_id, state="done")
    await organization.until_active(kb_id)
    answer = await organization.client.jobs.get(kb_id, job_id=started.job_id)
    assert_shows(answer, shown_job(row, documents=1), names={"job_id": "_id"})


@checks("jobs.cancel")
async def check_cancel_job(organization: StockedOrganization) -> None:
    """The job waits, because the knowledge base is paused."""
    kb_id = organization.changing_kb_id
    async with paused(organization):
        started = await organization.client.knowledge_bases.reindex(kb_id)
        assert started.job_id is not None
        answer = await organization.client.jobs.cancel(kb_id, job_id=started.job_id)
        row = await organization.row("backfills", _id=started.job_id)
    assert row["state"] == "cancelled"
    assert (answer.job_id, answer.kind, answer.status) == (row["_id"], row["kind"], row["state"])
    assert (answer.total, answer.created_at) == (row["queued"], row["created_at"])
