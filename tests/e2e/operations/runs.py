"""Checks of runs and conversations."""

from datetime import UTC, datetime, timedelta

import pytest

from kb_client.problems import NotFoundError
from kb_search.store import runs
from kb_search.store.runs import Run, RunStatus
from kb_shared.identifiers import new_id
from kb_shared.mongo.database import Row
from tests.e2e.operations.comparison import assert_holds, assert_shows
from tests.e2e.operations.registry import checks
from tests.e2e.operations.stocked_organization import DEMO, LEAVE, StockedOrganization

QUESTION = [{"role": "user", "content": "How much may a hotel cost?"}]


def shown_run(row: Row) -> Row:
    added = {"document_deleted": False}
    citations = [citation | added | {"chunk_id": citation["citation"]} for citation in row["citations"]]
    return {**row, "run_id": row["_id"], "citations": citations}


async def stored_run(organization: StockedOrganization, run_id: str) -> Row:
    return shown_run(await organization.row("runs", _id=run_id))


@checks("runs.create")
async def check_create(organization: StockedOrganization) -> None:
    answer = await organization.client.runs.create(messages=QUESTION, kb_id=organization.kb_id, model=DEMO)
    stored = await stored_run(organization, answer.run_id)
    assert_shows(answer, stored)
    assert_holds(stored, question=QUESTION, kb_ids=[organization.kb_id], model=DEMO, status="completed", origin="sdk")
    assert_holds(stored, key_id=organization.key_id)
    assert answer.citations
    async with organization.client.runs.stream(messages=QUESTION, kb_id=organization.kb_id, model=DEMO) as events:
        kinds = [event.event async for event in events]
    assert (kinds[0], kinds[-1]) == ("run.started", "run.finished")
    assert events.run_id is not None
    assert events.finished is not None
    assert_shows(events.finished, await stored_run(organization, events.run_id))


@checks("runs.list")
async def check_list(organization: StockedOrganization) -> None:
    answer = await organization.client.runs.list(limit=100)
    rows = (await organization.rows("runs"))[::-1]
    assert organization.run_id in {row["_id"] for row in rows}
    assert answer.total_count == len(rows)
    for run, row in zip(answer.runs, rows, strict=True):
        assert_shows(run, shown_run(row))


@checks("runs.get")
async def check_get(organization: StockedOrganization) -> None:
    answer = await organization.client.runs.get(organization.run_id)
    assert_shows(answer, await stored_run(organization, organization.run_id))
    assert [citation.document_id for citation in answer.citations] == [LEAVE]


@checks("runs.cancel")
async def check_cancel(organization: StockedOrganization) -> None:
    """No process works on this run, so that it can't end before it is cancelled."""
    now = datetime.now(UTC)
    run = Run(
        run_id=new_id(),
        organization_id=organization.organization_id,
        thread_id=None,
        prompt_id=None,
        agent_id=None,
        key_id=organization.key_id,
        model=DEMO,
        status=RunStatus.RUNNING,
        question=[],
        started_at=now,
        lost_after=now + timedelta(hours=1),
    )
    await runs.begin(organization.database, run)
    answer = await organization.client.runs.cancel(run.run_id)
    stored = await stored_run(organization, run.run_id)
    assert_shows(answer, stored)
    assert_holds(stored, cancellation_requested=True, status="running")
    await organization.database.runs.delete_one({"_id": run.run_id, "organization_id": organization.organization_id})


@checks("runs.set_feedback")
async def check_set_feedback(organization: StockedOrganization) -> None:
    answer = await organization.client.runs.set_feedback(organization.run_id, rating="up", comment="Thanks")
    stored = await stored_run(organization, organization.run_id)
    assert_shows(answer, stored)
    assert_holds(stored, feedback={"rating": "up", "comment": "Thanks"})


@checks("threads.create")
async def check_create_thread(organization: StockedOrganization) -> None:
    answer = await organization.client.threads.create(title="Created")
    row = await organization.row("threads", _id=answer.thread_id)
    assert_shows(answer, row, names={"thread_id": "_id"})
    assert_holds(row, title="Created", created_by=organization.key_id)


@checks("threads.list")
async def check_list_threads(organization: StockedOrganization) -> None:
    answer = await organization.client.threads.list(limit=100)
    rows = (await organization.rows("threads"))[::-1]
    assert organization.thread_id in {row["_id"] for row in rows}
    assert answer.total_count == len(rows)
    for thread, row in zip(answer.threads, rows, strict=True):
        assert_shows(thread, row, names={"thread_id": "_id"})


@checks("threads.get")
async def check_get_thread(organization: StockedOrganization) -> None:
    answer = await organization.client.threads.get(organization.thread_id)
    row = await organization.row("threads", _id=organization.thread_id)
    rows = await organization.rows("runs", thread_id=organization.thread_id)
    assert (answer.thread_id, answer.title, answer.created_at) == (row["_id"], row["title"], row["created_at"])
    assert answer.total_count == len(rows) == 1
    assert answer.runs[0].tool_calls is None
    complete = await organization.client.threads.get(organization.thread_id, with_tool_calls=True)
    assert complete.runs[0].tool_calls == rows[0]["tool_calls"]
    assert_shows(complete.runs[0], shown_run(rows[0]))


@checks("threads.delete")
async def check_delete_thread(organization: StockedOrganization) -> None:
    thread_id = (await organization.client.threads.create(title="Deleted")).thread_id
    await organization.client.runs.create(messages=QUESTION, kb_id=organization.kb_id, model=DEMO, thread_id=thread_id)
    assert len(await organization.rows("runs", thread_id=thread_id)) == 1
    answer = await organization.client.threads.delete(thread_id)
    assert "deleted" in answer.message
    assert not await organization.rows("threads", _id=thread_id)
    assert not await organization.rows("runs", thread_id=thread_id)
    with pytest.raises(NotFoundError):
        await organization.client.threads.get(thread_id)
