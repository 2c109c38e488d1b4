"""Checks of indexing jobs, pauses, reconciliation, and of messages that could not be handled."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from bson import ObjectId

from kb_contracts.api.knowledge_bases import KnowledgeBaseView
from kb_shared.mongo import reconcile_plans
from kb_shared.mongo.database import Row
from kb_shared.mongo.reconcile_plans import PlannedRepair, PlanScope
from tests.e2e.operations.comparison import assert_holds, assert_shows, undisturbed
from tests.e2e.operations.knowledge_bases import KB_ID, stored_knowledge_base
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import (
    BROKEN,
    CHANGING,
    CHANGING_TAG,
    LONG,
    REFUSED,
    TRAVEL,
    StockedOrganization,
)

NEW_PLAN: Row = {
    "state": "requested",
    "found": {},
    "repaired": {},
    "slices": 0,
    "compared": 0,
    "skipped": [],
    "approved_by": None,
    "finished_at": None,
    "error": None,
}


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


async def stored_plan(organization: StockedOrganization, plan_id: str) -> Row:
    return NEW_PLAN | await organization.row("reconcile_plans", _id=plan_id)


@checks("knowledge_bases.reconcile")
async def check_reconcile(organization: StockedOrganization) -> None:
    answer = await organization.client.knowledge_bases.reconcile(organization.kb_id, dry_run=True)
    await _assert_requested(organization, answer, kb_id=organization.kb_id)


@checks("knowledge_bases.reconcile_document")
async def check_reconcile_document(organization: StockedOrganization) -> None:
    kb_id = organization.kb_id
    answer = await organization.client.knowledge_bases.reconcile_document(kb_id, document_id=TRAVEL, dry_run=True)
    await _assert_requested(organization, answer, kb_id=kb_id, document_id=TRAVEL)


@checks("reconcile.start")
async def check_start_reconciling(organization: StockedOrganization) -> None:
    await _assert_requested(organization, await organization.client.reconcile.start(dry_run=True))


async def _assert_requested(organization: StockedOrganization, answer: Any, **scope: str) -> None:
    """Compare a new plan with its row, which the reconciler changes from then on, and wait for its end."""
    stored = await stored_plan(organization, answer.plan_id)
    assert_shows(answer, stored | NEW_PLAN, names={"plan_id": "_id"})
    whole_organization = {"kb_id": None, "document_id": None}
    assert_holds(stored, requested_by=organization.key_id, dry_run=True, **whole_organization | scope)
    await organization.until_row("reconcile_plans", _id=answer.plan_id, state={"$in": ["planned", "done"]})
    ended = await organization.client.reconcile.get_plan(answer.plan_id)
    row = await stored_plan(organization, answer.plan_id)
    assert (ended.state, ended.found, ended.compared) == (row["state"], row["found"], row["compared"])
    assert ended.found == {}


@checks("reconcile.list_passes")
async def check_list_passes(organization: StockedOrganization) -> None:
    answer, rows = await undisturbed(
        lambda: organization.client.reconcile.list_passes(limit=100), lambda: organization.rows("reconcile_passes")
    )
    assert answer.total_count == len(rows) > 0
    newest_first = sorted(rows, key=lambda row: (-row["started_at"].timestamp(), row["_id"]))
    for made, row in zip(answer.passes, newest_first, strict=True):
        assert_shows(made, row)


@checks("reconcile.list_plans")
async def check_list_plans(organization: StockedOrganization) -> None:
    answer, rows = await undisturbed(
        lambda: organization.client.reconcile.list_plans(limit=100), lambda: organization.rows("reconcile_plans")
    )
    assert answer.total_count == len(rows) > 0
    newest_first = sorted(rows, key=lambda row: (-row["created_at"].timestamp(), row["_id"]))
    for plan, row in zip(answer.plans, newest_first, strict=True):
        assert_shows(plan, NEW_PLAN | row, names={"plan_id": "_id"})


@checks("reconcile.get_plan")
async def check_get_plan(organization: StockedOrganization) -> None:
    answer = await organization.client.reconcile.get_plan(organization.plan_id)
    [repair] = await organization.rows("reconcile_repairs", plan_id=organization.plan_id)
    nothing = {"count": 0, "examples": []}
    derived = {
        "missing_documents": nothing,
        "stale_documents": {"count": 1, "examples": [repair["document_id"]]},
        "orphaned_vectors": nothing,
        "missing_embeddings": nothing,
        "repairs": answer.repairs,
        "total_count": 1,
    }
    assert_shows(answer, await stored_plan(organization, organization.plan_id) | derived, names={"plan_id": "_id"})
    [shown] = answer.repairs
    described = {"problem": shown.problem, "repair": shown.repair}
    assert_shows(shown, repair | described)


@checks("reconcile.apply_plan")
async def check_apply_plan(organization: StockedOrganization) -> None:
    """The document is compared again first, and nothing is wrong with it."""
    kb_id = organization.changing_kb_id
    await organization.until_active(kb_id)
    plan = await reconcile_plans.create_stopped(
        organization.database,
        PlanScope(organization.organization_id, kb_id),
        found={"stale": 1},
        repairs=[PlannedRepair(kb_id, "stale", CHANGING)],
    )
    answer = await organization.client.reconcile.apply_plan(plan.plan_id)
    stored = await stored_plan(organization, plan.plan_id)
    approved = {"state": "approved", "approved_by": organization.key_id, "found": {"stale": 1}}
    assert_shows(answer, stored | NEW_PLAN | approved, names={"plan_id": "_id"})
    assert_holds(stored, approved_by=organization.key_id)
    done = await organization.until_row("reconcile_plans", _id=plan.plan_id, state="done")
    assert (done.get("repaired"), done.get("error")) == ({}, None)


def shown_letter(row: Row) -> Row:
    trace_id = row["traceparent"].split("-")[1] if row["traceparent"] else None
    return {**row, "dead_letter_id": row["_id"], "trace_id": trace_id}


@checks("dead_letters.list")
async def check_list_dead_letters(organization: StockedOrganization) -> None:
    answer, rows = await undisturbed(
        lambda: organization.client.dead_letters.list(limit=100), lambda: organization.rows("dead_letters")
    )
    assert answer.total_count == len(rows) > 0
    newest_first = sorted(rows, key=lambda row: (-row["filed_at"].timestamp(), row["_id"]))
    for letter, row in zip(answer.dead_letters, newest_first, strict=True):
        assert_shows(letter, shown_letter(row))


@checks("dead_letters.redrive")
async def check_redrive_dead_letter(organization: StockedOrganization) -> None:
    [letter] = await organization.rows("dead_letters", document_id=BROKEN, redriven_from=None)
    answer = await organization.client.dead_letters.redrive(letter["_id"])
    row = await organization.row("dead_letters", _id=letter["_id"])
    assert_shows(answer, shown_letter(row))
    assert_holds(row, redriven_by=organization.key_id)
    # It is as unreadable as before.
    again = await organization.until_row("dead_letters", redriven_from=letter["_id"])
    assert_holds(again, document_id=BROKEN, reason=letter["reason"], size_bytes=letter["size_bytes"])


async def new_letter(organization: StockedOrganization, document_id: str) -> Row:
    key = f"{organization.organization_id}/{document_id}"
    await organization.running.send_malformed(b"not JSON", key=key.encode())
    return await organization.until_row("dead_letters", document_id=document_id, redriven_from=None)


@checks("dead_letters.get")
async def check_get_dead_letter(organization: StockedOrganization) -> None:
    [letter] = await organization.rows("dead_letters", document_id=BROKEN, redriven_from=None)
    answer, row = await undisturbed(
        lambda: organization.client.dead_letters.get(letter["_id"]),
        lambda: organization.row("dead_letters", _id=letter["_id"]),
    )
    assert_shows(answer, shown_letter(row))


@checks("dead_letters.count")
async def check_count_dead_letters(organization: StockedOrganization) -> None:
    await new_letter(organization, "counted")
    answer, rows = await undisturbed(
        organization.client.dead_letters.count,
        lambda: organization.rows("dead_letters", redriven_at=None, discarded_at=None),
    )
    reasons = Counter(row["reason"] for row in rows)
    assert {each.reason: each.count for each in answer.reasons} == reasons
    assert (answer.open_count, answer.is_exact) == (len(rows), True)
    [reason] = [each for each in answer.reasons if each.reason == rows[0]["reason"]]
    assert reason.oldest_at == min(row["filed_at"] for row in rows if row["reason"] == reason.reason)


@checks("dead_letters.redrive_many")
async def check_redrive_dead_letters(organization: StockedOrganization) -> None:
    letters = [await new_letter(organization, name) for name in ("broken-1", "broken-2")]
    answer = await organization.client.dead_letters.redrive_many(
        topic=letters[0]["topic"], dead_letter_ids=[letter["_id"] for letter in letters]
    )
    assert (answer.redriven_count, answer.too_large_count, answer.are_more_left) == (2, 0, False)
    for letter in letters:
        row = await organization.row("dead_letters", _id=letter["_id"])
        assert_holds(row, redriven_by=organization.key_id)
        await organization.until_row("dead_letters", redriven_from=letter["_id"])


@checks("dead_letters.discard")
async def check_discard_dead_letter(organization: StockedOrganization) -> None:
    letter = await new_letter(organization, "discarded")
    answer = await organization.client.dead_letters.discard(letter["_id"])
    row = await organization.row("dead_letters", _id=letter["_id"])
    assert_shows(answer, shown_letter(row))
    assert_holds(row, discarded_by=organization.key_id, redriven_at=None)


@checks("dead_letters.discard_many")
async def check_discard_dead_letters(organization: StockedOrganization) -> None:
    letters = [await new_letter(organization, name) for name in ("unwanted-1", "unwanted-2")]
    answer = await organization.client.dead_letters.discard_many(dead_letter_ids=[each["_id"] for each in letters])
    assert (answer.discarded_count, answer.are_more_left) == (2, False)
    for letter in letters:
        row = await organization.row("dead_letters", _id=letter["_id"])
        assert_holds(row, discarded_by=organization.key_id, redriven_at=None)


@checks("unsendable_messages.list")
async def check_list_unsendable_messages(organization: StockedOrganization) -> None:
    answer = await organization.client.unsendable_messages.list(limit=100)
    rows = await organization.rows("outbox", unsendable_at={"$exists": True})
    assert answer.total_count == len(rows)
    for message, row in zip(answer.unsendable_messages, rows, strict=True):
        assert_shows(message, row, names={"message_id": "_id"})


@checks("unsendable_messages.redrive")
async def check_redrive_unsendable_message(organization: StockedOrganization) -> None:
    row = await organization.row("outbox", document_id=REFUSED)
    answer = await organization.client.unsendable_messages.redrive(str(row["_id"]))
    redriven = await organization.row("outbox", _id=ObjectId(row["_id"]))
    assert_shows(answer, redriven, names={"message_id": "_id"})
    assert_holds(redriven, redriven_by=organization.key_id)
    await organization.until_row("outbox", _id=row["_id"], sent_at={"$type": "date"})
    await organization.until_row("documents", document_id=REFUSED, alive=True)


@checks("operations.get")
async def check_operations(organization: StockedOrganization) -> None:
    await organization.client.llm_providers.pause("azure")
    async with paused(organization):
        answer, stored = await undisturbed(organization.client.operations.get, lambda: _stored_operations(organization))
    assert_shows(answer, stored)
    assert [kb.kb_id for kb in answer.paused_knowledge_bases] == [organization.changing_kb_id]
    assert "azure" in {pause.provider for pause in answer.paused_providers}
    await organization.client.llm_providers.resume("azure")


@checks("operations.count")
async def check_operation_counts(organization: StockedOrganization) -> None:
    async def stored() -> Row:
        letters = await organization.rows("dead_letters", redriven_at=None, discarded_at=None)
        failed = await organization.rows("index_jobs", state="failed")
        return {"dead_letters": len(letters), "failed_documents": len(failed), "is_exact": True}

    answer, counted = await undisturbed(organization.client.operations.count, stored)
    assert_shows(answer, counted)


def _most_searched(searches: list[Row], kbs: list[Row]) -> list[Row]:
    names = {kb["_id"]: kb["name"] for kb in kbs}
    counts = Counter(kb_id for search in searches for kb_id in search["kb_ids"] if kb_id in names)
    most = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:5]
    return [{"kb_id": kb_id, "name": names[kb_id], "searches": count} for kb_id, count in most]


async def _stored_operations(organization: StockedOrganization) -> Row:
    """Return what goes on; of the jobs only those that have failed are expected."""
    jobs = await organization.rows("index_jobs")
    oldest: dict[str, list[Any]] = {}
    for job in jobs:
        oldest.setdefault(job["state"], []).append(job["requested_at"])
    kbs = await organization.rows("knowledge_bases", paused_at={"$ne": None})
    pauses = await organization.rows("provider_pauses")
    names = ("provider", "paused_at", "paused_by")
    return {
        "jobs": [
            {"state": state, "count": len(times), "oldest_at": min(times)} for state, times in sorted(oldest.items())
        ],
        "is_exact": True,
        "waiting": [],
        "running_jobs": len(await organization.rows("backfills", state="running")),
        "paused_knowledge_bases": [
            {"kb_id": kb["_id"], "name": kb["name"], "paused_at": kb["paused_at"]} for kb in kbs
        ],
        "paused_providers": [{name: pause[name] for name in names} for pause in pauses],
        "failed_knowledge_bases": [],
        "most_searched": _most_searched(
            await organization.rows("query_log", asked_at={"$gte": datetime.now(UTC) - timedelta(days=7)}),
            await organization.rows("knowledge_bases", status={"$ne": "deleting"}),
        ),
        "unusable_models": [],
        "dead_letters": len(await organization.rows("dead_letters", redriven_at=None, discarded_at=None)),
        "unsendable_messages": len(await organization.rows("outbox", unsendable_at={"$exists": True})),
    }
