"""Actions on several KBs at once: each has the effect of its own call, and an outcome of its own."""

from typing import Any

import pytest

from kb_api import act_on_knowledge_bases
from kb_api.pause_knowledge_base import pause_knowledge_base
from kb_shared.errors import TransientError
from kb_shared.mongo import backfills
from kb_shared.mongo.database import Database
from tests.integration.kb_api.organization import OrganizationClient

PATH = "/knowledge-bases:batch"
MISSING = "65f000000000000000000000"


async def jobs(database: Database, kb_id: str, kind: str) -> int:
    return await database[backfills.NAME].count_documents({"kb_id": kb_id, "kind": kind})


def batch(*entries: tuple[str, str]) -> dict[str, Any]:
    return {"entries": [{"kb_id": kb_id, "action": action} for kb_id, action in entries]}


async def test_each_entry_has_the_effect_of_its_own_call_and_a_bad_one_does_not_affect_the_others(
    organization: OrganizationClient,
) -> None:
    first, second = [(await organization.create())["kb_id"] for _ in range(2)]
    await organization.ok("POST", f"/knowledge-bases/{second}/pause")
    await organization.failed_job(second, "d", error_type="document_unfit", error_message="too long")
    sent = batch((first, "pause"), (MISSING, "pause"), ("no id", "pause"), (first, "explode"), (second, "resume"))[
        "entries"
    ]
    unknown_field = {"kb_id": first, "action": "resume", "colour": "red"}
    retry, reindex = batch((second, "retry_failed"), (second, "reindex"))["entries"]
    answer = await organization.ok("POST", PATH, json={"entries": [*sent, unknown_field, retry, reindex]})

    assert (answer["accepted_count"], answer["refused_count"]) == (4, 4)
    assert [outcome["kb_id"] for outcome in answer["outcomes"]] == [
        first,
        MISSING,
        None,
        first,
        second,
        first,
        *[second] * 2,
    ]
    problems = [outcome["problem"] and outcome["problem"]["type"] for outcome in answer["outcomes"]]
    refused = ["not-found", "not-found", "validation-error"]
    assert problems == [None, *refused, None, "validation-error", None, None]
    assert [answer["outcomes"][at]["problem"]["fields"][0]["field"] for at in (3, 5)] == ["action", "colour"]
    assert "replace_tags" in answer["outcomes"][3]["problem"]["fields"][0]["message"]

    assert (await organization.ok("GET", f"/knowledge-bases/{first}"))["paused_at"] is not None
    assert (await organization.ok("GET", f"/knowledge-bases/{second}"))["paused_at"] is None
    listed = await organization.ok("GET", f"/knowledge-bases/{second}/jobs")
    started = {job["kind"]: job["job_id"] for job in listed["jobs"]}
    assert [outcome["job_id"] for outcome in answer["outcomes"][-2:]] == [started["retry_failed"], started["reindex"]]
    assert "resume" in started


async def test_several_knowledge_bases_get_new_tags(organization: OrganizationClient) -> None:
    first, second = [(await organization.create())["kb_id"] for _ in range(2)]
    await organization.ok("POST", "/tags", json={"tag_id": "law", "name": "Law"})
    entries = [
        {"kb_id": first, "action": "replace_tags", "tag_ids": ["law"]},
        {"kb_id": second, "action": "replace_tags", "tag_ids": ["no-such-tag"]},
        {"kb_id": second, "action": "replace_tags"},
        {"kb_id": MISSING, "action": "replace_tags", "tag_ids": ["law"]},
    ]
    scans = await jobs(organization.database, first, "scan")
    answer = await organization.ok("POST", PATH, json={"entries": entries})
    problems = [outcome["problem"] and outcome["problem"]["type"] for outcome in answer["outcomes"]]
    assert problems == [None, "unknown-tag", "validation-error", "not-found"]
    changed, unchanged = [await organization.ok("GET", f"/knowledge-bases/{kb_id}") for kb_id in (first, second)]
    assert (changed["tag_ids"], unchanged["tag_ids"]) == (["law"], [])
    assert await jobs(organization.database, first, "scan") == scans + 1


async def test_a_repeated_batch_gets_the_first_answer_and_has_no_further_effect(
    organization: OrganizationClient,
) -> None:
    kb_id = (await organization.create())["kb_id"]
    await organization.ok("POST", f"/knowledge-bases/{kb_id}/pause")
    headers = {"Authorization": f"Bearer {organization.key}", "Idempotency-Key": "k"}
    sent = batch((kb_id, "resume"), (kb_id, "reindex"), (MISSING, "pause"))

    first = await organization.http.post(organization.base + PATH, headers=headers, json=sent)
    await organization.ok("POST", f"/knowledge-bases/{kb_id}/pause")
    again = await organization.http.post(organization.base + PATH, headers=headers, json=sent)
    assert first.json()["accepted_count"] == 2
    assert (again.json(), again.headers["idempotency-replayed"]) == (first.json(), "true")
    assert (await organization.ok("GET", f"/knowledge-bases/{kb_id}"))["paused_at"] is not None
    assert await jobs(organization.database, kb_id, "resume") == 1


async def test_what_was_done_before_a_failure_of_the_database_stays_and_the_rest_is_not_tried(
    organization: OrganizationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb_ids = [(await organization.create())["kb_id"] for _ in range(3)]
    reached: list[str] = []

    async def fail_at_the_second(*arguments: Any, kb_id: str, **named: Any) -> Any:
        reached.append(kb_id)
        if len(reached) == 2:
            raise TransientError("the database is away")
        return await pause_knowledge_base(*arguments, kb_id=kb_id, **named)

    monkeypatch.setattr(act_on_knowledge_bases, "pause_knowledge_base", fail_at_the_second)
    sent = batch(*((kb_id, "pause") for kb_id in kb_ids), (kb_ids[0], "explode"))
    answer = await organization.ok("POST", PATH, json=sent)
    assert reached == kb_ids[:2]
    statuses = [outcome["problem"] and outcome["problem"]["status"] for outcome in answer["outcomes"]]
    assert statuses == [None, 503, 503, 422]
    paused = [(await organization.ok("GET", f"/knowledge-bases/{kb_id}"))["paused_at"] for kb_id in kb_ids]
    assert [each is not None for each in paused] == [True, False, False]


async def test_a_batch_has_1_to_100_entries(organization: OrganizationClient) -> None:
    for entries in ([], [(MISSING, "pause")] * 101):
        assert await organization.refused("POST", PATH, json=batch(*entries)) == (422, "validation-error")
