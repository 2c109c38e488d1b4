"""What people do when documents do not get where they should, from outside."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from kb_contracts.cloudevents import encode
from kb_shared.mongo.document_texts import text_id
from kb_shared.mongo.keys import DocumentKey
from tests.chaos.workload import paragraph
from tests.e2e.running_system import RunningSystem
from tests.e2e.system import SystemUnderTest
from tests.waiting import until


async def ok(system: SystemUnderTest, method: str, path: str, **options: Any) -> dict[str, Any]:
    answer = await system.http.request(method, path, **options)
    assert answer.is_success, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def put(running: RunningSystem, document_id: str, tag: str) -> None:
    event = running.upstream.ocr(document_id, [paragraph(document_id)], tags=[tag])
    body = event.model_dump(mode="json", by_alias=True, exclude={"organization_id", "document_id"}, exclude_none=True)
    accepted = await ok(running.system, "PUT", f"/documents/{document_id}", json=body)
    assert accepted["revision"] == event.revision
    running.oracle.record_published(event)


async def test_an_event_whose_text_came_too_late_is_redriven_and_indexed(running: RunningSystem) -> None:
    system = running.system
    (tag,) = await running.create_tags(1)
    kb_id = await running.create_knowledge_base(tag)
    document_id = f"late-{tag}"
    whole = running.upstream.ocr(document_id, [paragraph(f"{document_id}-{n}") for n in range(20)], tags=[tag])
    text = whole.text or ""
    reference = text_id(DocumentKey(system.organization_id, document_id), text, ())
    event = whole.model_copy(update={"text": None, "text_ref": reference})
    await running.send_malformed(
        encode(event, source="/tests/upstream"), key=f"{system.organization_id}/{document_id}".encode()
    )

    async def letters() -> list[dict[str, Any]]:
        answer = await ok(system, "GET", "/dead-letters", params={"reason": "unknown-text-ref", "limit": 100})
        return [each for each in answer["dead_letters"] if each["document_id"] == document_id]

    async def is_filed() -> bool:
        return bool(await letters())

    await until(is_filed)
    [letter] = await letters()
    stored = await ok(
        system,
        "PUT",
        f"/documents/{document_id}/text",
        content=text.encode(),
        headers={"Content-Type": "text/plain; charset=utf-8"},
    )
    assert stored["text_ref"] == reference
    running.oracle.record_published(whole)
    for _ in range(2):
        await ok(system, "POST", f"/dead-letters/{letter['dead_letter_id']}/redrive")
    await system.until_found(kb_id, [document_id])
    assert len(await letters()) == 1


async def test_a_paused_knowledge_base_is_searched_and_has_everything_once_resumed(running: RunningSystem) -> None:
    system = running.system
    (tag,) = await running.create_tags(1)
    kb_id = await running.create_knowledge_base(tag)
    first, second, third = (f"{n}-{tag}" for n in ("first", "second", "third"))
    for document_id in (first, second):
        await put(running, document_id, tag)
    await system.until_found(kb_id, [first, second])

    await ok(system, "POST", f"/knowledge-bases/{kb_id}/pause")
    deleted = await ok(system, "DELETE", f"/documents/{first}")
    running.oracle.record_published(running.upstream.deleted(first, revision=deleted["revision"]))
    await put(running, third, tag)
    await system.until_found(kb_id, [second])

    async def is_paused() -> bool:
        explained = await system.http.get(f"/knowledge-bases/{kb_id}/documents/{third}/explain")
        return explained.is_success and explained.json()["status"] == "paused"

    await until(is_paused)
    await ok(system, "POST", f"/knowledge-bases/{kb_id}/resume")
    await system.until_found(kb_id, [second, third])
    await running.assert_consistent()


async def test_a_lost_document_is_found_listed_and_repaired_from_the_command_line(running: RunningSystem) -> None:
    system = running.system
    (tag,) = await running.create_tags(1)
    kb_id = await running.create_knowledge_base(tag)
    kept, lost = (f"{n}-{tag}" for n in ("kept", "lost"))
    for document_id in (kept, lost):
        await put(running, document_id, tag)
    await system.until_found(kb_id, [kept, lost])
    await system.database[f"kb_vectors_{kb_id}"].delete_many({"document_id": lost})

    listed = await reconcile(system, kb_id, "--dry-run")
    assert (listed["state"], listed["found"], listed["repaired"]) == ("planned", {"incomplete": 1}, {})
    assert [repair["document_id"] for repair in listed["repairs"]] == [lost]
    repaired = await reconcile(system, "--apply", listed["plan_id"])
    assert (repaired["state"], repaired["repaired"]) == ("done", {"incomplete": 1})

    await system.until_found(kb_id, [kept, lost])


async def reconcile(system: SystemUnderTest, *arguments: str) -> dict[str, Any]:
    """Run the command and return what it prints as JSON."""
    stack = system.stack
    command = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("kb")),
        *("reconcile", *arguments, "--json"),
        env={
            "KB_BASE_URL": stack.base_url,
            "KB_ORGANIZATION": stack.organization_id,
            "KB_API_KEY": stack.api_key,
        },
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await command.communicate()
    assert command.returncode == 0
    plan: dict[str, Any] = json.loads(output)
    return plan
