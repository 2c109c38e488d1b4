"""What a knowledge base has, it keeps; what it lost is noticed. See docs/explanation/lessons.md."""

import pytest

from kb_reconciler import slices
from kb_shared import failpoints
from kb_shared.mongo import backfills, document_texts
from kb_shared.mongo.backfills import Kind
from kb_shared.mongo.database import MongoSession, in_transaction
from kb_shared.mongo.keys import KnowledgeBaseKey
from tests.integration.indexer.support import CommandLog, Replica, Tenant, paragraph, text_of

TEXTS = {f"d{n}": text_of(n, n + 10) for n in range(5)}


async def test_w3_a_knowledge_base_keeps_its_chunks_while_it_is_changed_and_reindexed(
    tenant: Tenant, indexer: Replica, rival: Replica, rival_command_log: CommandLog
) -> None:
    """Elsewhere a change of settings deleted all vectors at once and queued the work that makes them again."""
    kb = await tenant.create_kb("a")
    await indexer.publish(*(tenant.ocr(document_id, text) for document_id, text in TEXTS.items()))
    await indexer.work()

    await rival.retag_kb(kb, "a", "b")
    assert rival_command_log.names()
    large = (kb.vector_collection, document_texts.NAME)
    touched = [name for name in rival_command_log.names() if any(each in name for each in large)]
    assert touched == [], "the request reads no text and writes no chunk"
    await tenant.assert_holds(kb, TEXTS)

    async def start(session: MongoSession) -> None:
        await backfills.start(
            tenant.database,
            session,
            KnowledgeBaseKey(tenant.organization_id, kb.kb_id),
            traceparent="",
            kind=Kind.REINDEX,
        )

    await in_transaction(tenant.database, start)
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        await tenant.assert_holds(kb, TEXTS)

    async with failpoints.during("swap.before_commit", look):
        await indexer.scan()
    assert looks >= len(TEXTS)
    await tenant.assert_holds(kb, TEXTS)
    await tenant.assert_settled()


@pytest.mark.parametrize("lost", [{}, {"chunk_index": 1}], ids=["all chunks", "the last of each"])
async def test_w9_documents_that_lost_chunks_are_found_by_counting(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch, lost: dict[str, int]
) -> None:
    """Elsewhere a row that said indexed was believed for ever, and pages without an order skipped documents."""
    monkeypatch.setattr(slices, "SLICE_SIZE", 2)
    kb = await tenant.create_kb("a")
    await indexer.publish(*(tenant.ocr(document_id, text) for document_id, text in TEXTS.items()))
    await indexer.publish(tenant.ocr("empty", ""))
    await indexer.work()
    await tenant.database[kb.vector_collection].delete_many({**lost, "document_id": {"$ne": "d2"}})

    report = await indexer.full_pass()

    assert {document_id for _, document_id in await tenant.jobs()} == TEXTS.keys() - {"d2"}
    assert report.total.found["incomplete"] >= 4
    await indexer.work()
    await tenant.assert_holds(kb, TEXTS | {"empty": ""})
    await tenant.assert_settled()


async def test_w9_a_document_that_lost_its_tag_in_a_crash_is_removed_by_the_reconciler(
    tenant: Tenant, indexer: Replica
) -> None:
    """Elsewhere only the knowledge bases of a document's present tags were looked at."""
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", paragraph(1)))
    await indexer.work()

    async def crash() -> None:
        raise InterruptedError

    async with failpoints.during("fan_out.after_projection", crash):
        with pytest.raises(InterruptedError):
            await indexer.publish(tenant.tagged("d", "z", revision=2))

    await indexer.full_pass()
    await indexer.work()
    await tenant.assert_holds(kb, {})
    await tenant.assert_settled()
