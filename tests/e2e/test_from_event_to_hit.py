from typing import Any
from uuid import uuid4

import httpx

from kb_contracts import topics
from tests.chaos.workload import paragraph
from tests.e2e.running_system import RunningSystem
from tests.waiting import until


async def test_a_document_is_found_where_its_tags_say_and_with_what_is_known_of_it(running: RunningSystem) -> None:
    here, there = await running.create_tags(2)
    document_id = f"contract-{here}"
    kb_here, kb_there = await running.create_knowledge_base(here), await running.create_knowledge_base(there)
    texts = [paragraph(f"{document_id} {n}") for n in range(3)]

    await running.publish(running.upstream.ocr(document_id, texts, tags=[here], metadata={"language": "en"}))
    await running.system.until_found(kb_here, [document_id])
    best, *_ = await running.system.search(kb_here, texts[1])
    assert (best["content"], best["chunk_index"], best["source"]) == (texts[1], 1, f"{document_id} in revision 1")
    assert best["relevance"] > 0.999

    await running.publish(running.upstream.described(document_id, {"language": "de", "pages": 3}, revision=2))
    await running.system.until_found(kb_here, [document_id], metadata_filter={"language": "de", "pages": 3})
    assert await running.system.search(kb_here, texts[1], metadata_filter={"language": "en"}) == []

    await running.publish(running.upstream.tagged(document_id, there, revision=3))
    await running.system.until_found(kb_there, [document_id])
    await running.system.until_found(kb_here, [])

    await running.publish(running.upstream.deleted(document_id, revision=4))
    await running.system.until_found(kb_there, [])
    await running.assert_consistent()


async def test_the_trace_of_an_upstream_continues_in_the_announcements(running: RunningSystem) -> None:
    (tag,) = await running.create_tags(1)
    await running.create_knowledge_base(tag)
    event = running.upstream.ocr(f"traced-{tag}", [paragraph(tag)], tags=[tag])
    running.oracle.record_published(event)
    trace_id = uuid4().hex
    await running.system.events.publish(event, traceparent=f"00-{trace_id}-{uuid4().hex[:16]}-01")
    await running.assert_consistent()
    outcomes = [
        message
        for message in await running.system.kafka.read(topics.KB_EVENTS)
        if event.document_id.encode() in (message.value or b"")
    ]
    assert [message.headers["traceparent"].split("-")[1] for message in outcomes] == [trace_id]


async def test_a_new_knowledge_base_takes_in_what_is_there_and_a_deleted_one_leaves_nothing(
    running: RunningSystem,
) -> None:
    (tag,) = await running.create_tags(1)
    document_ids = [f"early-{tag}-{n}" for n in range(5)]
    await running.publish(
        *(running.upstream.ocr(i, [paragraph(f"{i} {n}") for n in range(2)], tags=[tag]) for i in document_ids)
    )
    kb_id = await running.create_knowledge_base(tag)
    await running.system.until_found(kb_id, document_ids)
    await running.assert_consistent()

    running.oracle.record_deleted(kb_id)
    await _delete(running, kb_id)
    await running.assert_consistent()


async def test_a_german_document_is_found_by_an_english_question_with_the_multilingual_model_and_no_key(
    running: RunningSystem,
) -> None:
    (tag,) = await running.create_tags(1)
    kb_id = await running.system.create_knowledge_base(tag, embedding_model="use-multilingual-v3")
    await running.system.until_active(kb_id)
    backup, cake, leave = (f"{name}-{tag}" for name in ("backup", "cake", "leave"))
    texts = {
        backup: "Wer die Datenbank aus einer Sicherung wiederherstellt, hält vorher den Server an.",
        cake: "Der Kuchen bleibt vierzig Minuten im Ofen und kühlt dann ab.",
        leave: "Urlaub wird zwei Wochen vorher beantragt und von der Leitung genehmigt.",
    }
    await running.publish(*(running.upstream.ocr(i, [text], tags=[tag]) for i, text in texts.items()))
    await running.system.until_found(kb_id, list(texts), mode="vector")

    best, *_ = await running.system.search(kb_id, "How is a database restored from a backup?", mode="vector")
    assert best["document_id"] == backup

    # The oracle knows of hash models only.
    await _delete(running, kb_id)
    await running.assert_consistent()


async def test_the_documents_that_a_changed_tag_concerns_are_charged_once_for_the_same_text(
    running: RunningSystem,
) -> None:
    one, other = await running.create_tags(2)
    document_id = f"shared-{one}"
    texts = [paragraph(f"{document_id} {n}") for n in range(4)]
    kb_ids = [await running.create_knowledge_base(tag) for tag in (one, other)]
    await running.publish(running.upstream.ocr(document_id, texts, tags=[one]))
    await running.assert_consistent()
    await running.publish(running.upstream.tagged(document_id, one, other, revision=2))
    await running.assert_consistent()
    spus = [(await _stats(running, kb_id))["spus"] for kb_id in kb_ids]
    assert spus == [4, 0]


async def test_another_organization_learns_nothing(running: RunningSystem) -> None:
    (tag,) = await running.create_tags(1)
    kb_id = await running.create_knowledge_base(tag)
    system = running.system
    key = f"kb_{uuid4().hex[:12]}_{uuid4().hex}"
    await system.stack.start_service("kb_api:2", KB_BOOTSTRAP_ORGANIZATION="others", KB_BOOTSTRAP_ADMIN_KEY=key)
    await system.stack.stop_service("kb_api:2")
    async with httpx.AsyncClient(
        base_url=f"{system.stack.base_url}/v0/orgs", headers={"Authorization": f"Bearer {key}"}, trust_env=False
    ) as theirs:
        assert (await theirs.get("/others/knowledge-bases")).json()["knowledge_bases"] == []
        for organization_id in ("others", system.organization_id):
            path = f"/{organization_id}/knowledge-bases/{kb_id}"
            assert (await theirs.get(path)).status_code == 404
            assert (await theirs.post(f"{path}/search", json={"query": "anything"})).status_code == 404
            assert (await theirs.delete(path)).status_code == 404
    assert await system.search(kb_id, "anything") == []


async def _delete(running: RunningSystem, kb_id: str) -> None:
    """Delete a KB and wait until nothing of it is left."""
    (await running.system.http.delete(f"/knowledge-bases/{kb_id}")).raise_for_status()

    async def is_gone() -> bool:
        return await running.system.database.kb_slots.find_one({"kb_id": kb_id}) is None

    await until(is_gone)


async def _stats(running: RunningSystem, kb_id: str) -> dict[str, Any]:
    answer: dict[str, Any] = (
        (await running.system.http.get(f"/knowledge-bases/{kb_id}/stats")).raise_for_status().json()
    )
    return answer
