"""Operations: what somebody on call sees and does."""

from typing import Any

import httpx
import pytest

from tests.unit.console.fake_api import FakeApi
from tests.unit.console.operator_pages import DOCUMENT_ID, JOB_ID, KB_ID, LETTER_ID, ORG, PLAN_ID

OPERATIONS = f"{ORG}/operations"
LETTERS = f"{OPERATIONS}/dead-letters"
NOTHING_OPEN = {"jobs": [], "waiting": [], "running_jobs": 0, "paused_providers": [], "most_searched": []}


async def test_the_overview_says_first_whether_somebody_has_to_do_something(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    found = api.answers["GET /operations"]
    found |= NOTHING_OPEN
    healthy = (await reader.get(OPERATIONS)).text
    assert "nothing needs attention" in healthy
    assert 'id="poll"' not in healthy
    job = {"state": "pending", "count": 3, "oldest_at": "2026-01-31T12:00:00Z"}
    found["jobs"] = [job, {**job, "state": "failed", "count": 2}]
    found["waiting"] = [{"error_type": "provider_quota", "count": 3}]
    found["dead_letters"] = 1
    found["failed_knowledge_bases"] = [{"kb_id": KB_ID, "name": "Handbook", "reason": "the model is gone"}]
    ill = (await reader.get(OPERATIONS)).text
    assert "2 failed documents, 1 open dead letter, 1 knowledge base in error." in ill
    assert "the model is gone" in ill
    assert ill.count("raise it there") == 2, "in the causes and among the providers at their limit"
    assert 'id="poll"' in ill, "documents wait"


async def test_lists_say_that_they_are_empty_or_that_nothing_matches(reader: httpx.AsyncClient, api: FakeApi) -> None:
    nothing: dict[str, Any] = {"total_count": 0}
    for call, rows, page, empty, no_match in [
        ("GET /documents", "documents", "failed", "No document has failed", "?q=x"),
        ("GET /dead-letters", "dead_letters", "dead-letters", "There is no open dead letter", "?reason=x"),
        ("GET /unsendable-messages", "unsendable_messages", "unsendable-messages", "refused no message", "?topic=x"),
        ("GET /jobs", "jobs", "jobs", "There was no job yet", "?page=2"),
    ]:
        api.answers[call] |= {rows: [], **nothing}
        assert empty in (await reader.get(f"{OPERATIONS}/{page}")).text
        assert "Show all" in (await reader.get(f"{OPERATIONS}/{page}{no_match}")).text
    api.answers["GET /reconcile/plans"] |= {"plans": [], **nothing}
    api.answers["GET /reconcile/passes"] |= {"passes": [], **nothing}
    drift = (await reader.get(f"{OPERATIONS}/drift")).text
    assert ("Nothing was checked by hand" in drift, "No pass has compared" in drift) == (True, True)


async def test_a_failed_document_can_be_retried_where_it_is_listed(reader: httpx.AsyncClient, api: FakeApi) -> None:
    placements = [{"kb_id": KB_ID, "status": "failed"}, {"kb_id": "other", "status": "indexed"}]
    api.answers["GET /documents"]["documents"][0]["knowledge_bases"] = placements
    listed = (await reader.get(f"{OPERATIONS}/failed")).text
    retry = f"{ORG}/knowledge-bases/{KB_ID}/documents/{DOCUMENT_ID}/retry"
    assert f'action="{retry}"' in listed
    assert "/other/" not in listed, "there it has not failed"
    assert (await reader.post(retry)).status_code == 303


@pytest.mark.parametrize("action", ["redrive", "discard"])
async def test_many_dead_letters_are_acted_on_after_their_number_was_shown(
    reader: httpx.AsyncClient, api: FakeApi, action: str
) -> None:
    call = f"POST /dead-letters:{action}"
    api.answers["GET /dead-letters"]["total_count"] = 1_234
    asked = (await reader.get(f"{LETTERS}/confirm/{action}?reason=not-json")).text
    assert "1\u202f234 dead letters?" in asked
    query = api.queries["GET /dead-letters"]
    assert (query["is_open"], query["reason"]) == ("true", "not-json"), "closed ones stay as they are"
    selected = await reader.get(f"{LETTERS}/confirm/{action}?only_selected=true&reason=not-json&id=a&id=b")
    assert "2 dead letters?" in selected.text
    assert call not in api.calls, "nothing is done before"
    nothing = await reader.get(f"{LETTERS}/confirm/{action}?only_selected=true", follow_redirects=True)
    assert "No dead letter was selected" in nothing.text

    done = await reader.post(f"{LETTERS}/{action}", data={"reason": "not-json", "topic": ""}, follow_redirects=True)
    assert api.bodies[call] == {"topic": None, "reason": "not-json"}
    assert "1\u202f000 dead letters" in done.text
    assert "More are left" in done.text
    await reader.post(f"{LETTERS}/{action}", data={"id": ["a", "b"], "reason": "not-json"})
    assert api.bodies[call] == {"dead_letter_ids": ["a", "b"]}, "only those, whatever the list was filtered by"
    await reader.post(f"{LETTERS}/{LETTER_ID}/{action}")
    assert f"POST /dead-letters/{LETTER_ID}/{action}" in api.calls


async def test_drift_is_checked_first_and_repaired_when_the_list_was_seen(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    kb = f"/knowledge-bases/{KB_ID}"
    overview = (await reader.get(f"{ORG}{kb}")).text
    assert f'action="{OPERATIONS}/drift/check"' in overview
    assert f'name="kb_id" value="{KB_ID}"' in overview
    for form, call in [
        ({}, "POST /reconcile"),
        ({"kb_id": KB_ID}, f"POST {kb}/reconcile"),
        ({"kb_id": KB_ID, "document_id": DOCUMENT_ID}, f"POST {kb}/documents/{DOCUMENT_ID}/reconcile"),
    ]:
        begun = await reader.post(f"{OPERATIONS}/drift/check", data=form)
        assert begun.headers["location"] == f"{OPERATIONS}/drift/plans/{PLAN_ID}"
        assert (api.calls[-1], api.queries[call]["dry_run"]) == (call, "true")
    plan = api.answers[f"GET /reconcile/plans/{PLAN_ID}"]
    here = f"{OPERATIONS}/drift/plans/{PLAN_ID}"
    plan["state"] = "running"
    running = (await reader.get(here)).text
    assert ('id="poll"' in running, "Apply the repairs" in running) == (True, False)
    plan["state"] = "stopped"
    plan["stale_documents"] = {"count": 40, "examples": []}
    assert "waits for somebody" in (await reader.get(here)).text
    assert "40 documents can no longer be found" in (await reader.get(f"{here}/apply")).text
    assert (await reader.post(f"{here}/apply")).headers["location"] == f"{here}?done=applied"


async def test_a_job_is_cancelled_unless_a_knowledge_base_would_miss_documents(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    here = f"{OPERATIONS}/jobs/{KB_ID}/{JOB_ID}"
    shown = (await reader.get(here)).text
    assert ("leaves 25 documents as they are" in shown, 'id="poll"' in shown) == (True, True)
    assert (await reader.post(f"{here}/cancel")).status_code == 303
    assert api.calls[-1] == f"DELETE /knowledge-bases/{KB_ID}/jobs/{JOB_ID}"
    api.answers[f"GET /knowledge-bases/{KB_ID}/jobs/{JOB_ID}"]["kind"] = "scan"
    assert "Pause the knowledge base instead" in (await reader.get(here)).text


@pytest.mark.parametrize(
    ("page", "call", "jobs"),
    [
        (f"{OPERATIONS}/jobs", "GET /jobs", f"{OPERATIONS}/jobs/{KB_ID}"),
        (f"{ORG}/knowledge-bases/{KB_ID}", f"GET /knowledge-bases/{KB_ID}/jobs", f"{ORG}/knowledge-bases/{KB_ID}/jobs"),
    ],
    ids=["all", "of one knowledge base"],
)
async def test_a_list_of_jobs_offers_to_cancel_only_what_can_be_cancelled(
    reader: httpx.AsyncClient, api: FakeApi, page: str, call: str, jobs: str
) -> None:
    job = api.answers[call]["jobs"][0]
    cancel = f'action="{jobs}/{job["job_id"]}/cancel"'
    for status, kind, is_offered in [
        ("running", "reindex", True),
        ("running", "scan", False),
        ("done", "reindex", False),
    ]:
        job.update(status=status, kind=kind)
        assert (cancel in (await reader.get(page)).text) is is_offered, (status, kind)


async def test_several_knowledge_bases_are_paused_after_a_question_and_each_outcome_is_shown(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    batch = f"{ORG}/knowledge-bases/batch"
    nothing = await reader.get(f"{batch}?action=pause", follow_redirects=True)
    assert "No knowledge base was selected" in nothing.text
    assert "Pause indexing of 1 knowledge base?" in (await reader.get(f"{batch}?action=pause&kb={KB_ID}")).text
    done = await reader.post(batch, data={"action": "pause", "kb": [KB_ID, "gone"]})
    actions = [{"kb_id": KB_ID, "action": "pause"}, {"kb_id": "gone", "action": "pause"}]
    assert api.bodies["POST /knowledge-bases:batch"] == {"entries": actions}
    assert ("1 carried out, 1 refused" in done.text, "There is no such knowledge base." in done.text) == (True, True)
    assert (await reader.get(f"{batch}?action=delete&kb={KB_ID}")).status_code == 422
    rebuilt = await reader.post(f"{ORG}/knowledge-bases/{KB_ID}/rebuild-search-indexes")
    assert rebuilt.headers["location"].endswith("?done=rebuilt")


async def test_a_plan_outlives_its_knowledge_base_and_does_not_lead_to_it_then(
    reader: httpx.AsyncClient, api: FakeApi
) -> None:
    api.answers[f"GET /reconcile/plans/{PLAN_ID}"]["kb_id"] = KB_ID
    here = f"{OPERATIONS}/drift/plans/{PLAN_ID}"
    assert f'/knowledge-bases/{KB_ID}"' in (await reader.get(here)).text
    api.refuse(f"GET /knowledge-bases/{KB_ID}", 404, "not-found")
    shown = await reader.get(here)
    assert (shown.status_code, "which was deleted" in shown.text) == (200, True)
    assert f'/knowledge-bases/{KB_ID}"' not in shown.text
