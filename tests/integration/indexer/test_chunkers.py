"""What the chunker of a KB means for what is stored and what is paid."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from kb_api.documents_of_knowledge_base import list_documents
from kb_shared.chunking import ChunkerType
from kb_shared.errors import BudgetExhausted
from kb_shared.failpoints import during
from kb_shared.metering.budget import Spending
from kb_shared.mongo import budgets, embedding_cache, spu_ledger
from kb_shared.mongo.budgets import BudgetLimits
from kb_shared.mongo.database import Row
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.integration.indexer.conftest import ModelControls
from tests.integration.indexer.support import Replica, Tenant, chunks_for, paragraph, text_of

BY_MEANING = [ChunkerType.SEMANTIC, ChunkerType.SDPM]
LONG_TEXT = " ".join(paragraph(n) for n in range(40))


async def cached(tenant: Tenant) -> list[Row]:
    rows = tenant.database[embedding_cache.NAME].find({"scope": tenant.organization_id}, {"embedding": 0})
    return await rows.to_list()


async def states(tenant: Tenant, kb: KnowledgeBase) -> dict[str, str]:
    listed, _ = await list_documents(tenant.database, kb, "all", name_search=None, skip=0, limit=10)
    return {document.document_id: document.status for document in listed}


@pytest.mark.parametrize("chunker_type", ChunkerType)
async def test_a_document_is_cut_as_its_knowledge_base_says(
    tenant: Tenant, indexer: Replica, chunker_type: ChunkerType
) -> None:
    kb = await tenant.create_kb("a", chunker_type=chunker_type, chunk_size=100)
    await indexer.publish(tenant.ocr("d", LONG_TEXT))
    await indexer.work()
    await tenant.assert_holds(kb, {"d": LONG_TEXT})
    await tenant.assert_settled()


@pytest.mark.parametrize("chunker_type", BY_MEANING)
async def test_vectors_of_sentences_are_charged_as_indexing_and_kept_for_a_week(
    tenant: Tenant, indexer: Replica, chunker_type: ChunkerType
) -> None:
    kb = await tenant.create_kb("a", chunker_type=chunker_type, chunk_size=100)
    await indexer.publish(tenant.ocr("d", LONG_TEXT))
    await indexer.work()

    chunks = {chunk.chunk_hash for chunk in chunks_for(kb, LONG_TEXT)}
    rows = await cached(tenant)
    days = {row["chunk_hash"]: round((row["expires_at"] - datetime.now(UTC)) / timedelta(days=1)) for row in rows}
    assert {days[chunk_hash] for chunk_hash in chunks} == {90}
    sentences = {chunk_hash for chunk_hash in days if chunk_hash not in chunks}
    assert {days[chunk_hash] for chunk_hash in sentences} == {7}
    # Forty sentences, and three in front of each but the first three. A chunk may be one of them, or another.
    assert len(sentences) <= 40 + 37 <= len(rows)
    ledger = await tenant.database[spu_ledger.NAME].find({"organization_id": tenant.organization_id}).to_list()
    assert {row["operation"] for row in ledger} == {"index"}
    assert {row["kb_id"] for row in ledger} == {kb.kb_id}
    assert await tenant.spus() == len(rows)


async def test_a_changed_document_pays_only_for_its_new_sentences(
    tenant: Tenant, indexer: Replica, provider: ModelControls
) -> None:
    await tenant.create_kb("a", chunker_type=ChunkerType.SEMANTIC, chunk_size=100)
    await indexer.publish(tenant.ocr("d", LONG_TEXT))
    await indexer.work()
    before = await provider.inputs()

    await indexer.publish(tenant.ocr("d", f"{LONG_TEXT} {paragraph(41)}", revision=2))
    await indexer.work()

    # The last sentence now has another one behind it; one more and its window are new, and a chunk or two.
    assert await provider.inputs() - before <= 6


@pytest.mark.parametrize("chunker_type", BY_MEANING)
async def test_a_hard_budget_refuses_before_the_first_of_many_sentences_is_paid(
    tenant: Tenant, indexer: Replica, provider: ModelControls, chunker_type: ChunkerType
) -> None:
    kb = await tenant.create_kb("a", chunker_type=chunker_type, chunk_size=100)
    await budgets.set_limits(tenant.database, tenant.organization_id, BudgetLimits(soft=None, hard=60))

    await indexer.publish(tenant.ocr("d", LONG_TEXT))
    await indexer.work()

    job = (await tenant.jobs())[kb.kb_id, "d"]
    assert (job.state, job.attempts, job.error_type) == (IndexJobState.PENDING, 0, "budget_exhausted")
    assert await provider.inputs() == 0


@pytest.mark.parametrize("chunker_type", BY_MEANING)
async def test_spending_of_others_never_ends_the_budget_in_the_middle_of_a_document(
    tenant: Tenant, indexer: Replica, provider: ModelControls, chunker_type: ChunkerType
) -> None:
    kb = await tenant.create_kb("a", chunker_type=chunker_type, chunk_size=100)
    await budgets.set_limits(tenant.database, tenant.organization_id, BudgetLimits(soft=None, hard=150))
    spending = Spending(tenant.database)

    async def spend_remaining_budget() -> None:
        with suppress(BudgetExhausted):
            while True:
                await spending.settle_reservation(await spending.reserve(tenant.organization_id, 1), used=1)

    await indexer.publish(tenant.ocr("d", LONG_TEXT))
    async with during("sync.after_chunking", spend_remaining_budget):
        await indexer.work()

    paid = await provider.inputs()
    assert paid == await tenant.spus() > 0
    rows = await tenant.database[kb.vector_collection].count_documents({"document_id": "d"})
    assert rows > 2, "the vectors of its chunks had room, too"


@pytest.mark.parametrize("chunker_type", ChunkerType)
async def test_a_document_of_too_many_chunks_fails_before_anything_is_paid_whatever_the_chunker(
    tenant: Tenant, indexer: Replica, provider: ModelControls, chunker_type: ChunkerType
) -> None:
    kb = await tenant.create_kb("a", max_chunks=3, chunker_type=chunker_type, chunk_size=100)
    await indexer.publish(tenant.ocr("d", LONG_TEXT))
    await indexer.work()

    [job] = (await tenant.jobs()).values()
    assert (job.state, job.error_type) == (IndexJobState.FAILED, "document_unfit")
    assert "chunks; the knowledge base takes at most 3 a document" in (job.error_message or "")
    assert await provider.inputs() == 0
    assert await tenant.spus() == 0
    await tenant.assert_holds(kb, {})


async def test_w13_fifty_equal_chunks_are_embedded_once(
    tenant: Tenant, indexer: Replica, provider: ModelControls
) -> None:
    kb = await tenant.create_kb("a")
    text = text_of(*[7] * 50)
    await indexer.publish(tenant.ocr("d", text))
    await indexer.work()

    assert await provider.inputs() == 1
    assert await tenant.spus() == 1
    assert await tenant.database[kb.vector_collection].count_documents({}) == 50
    await tenant.assert_holds(kb, {"d": text})


@pytest.mark.parametrize("text", ["", " \n\t\u3000", "\n" * 1_000], ids=["empty", "blank", "lines"])
@pytest.mark.parametrize("chunker_type", [ChunkerType.RECURSIVE, ChunkerType.SEMANTIC])
async def test_a_document_without_text_is_empty_and_costs_nothing(
    tenant: Tenant, indexer: Replica, provider: ModelControls, text: str, chunker_type: ChunkerType
) -> None:
    kb = await tenant.create_kb("a", chunker_type=chunker_type)
    await indexer.publish(tenant.ocr("d", text))
    await indexer.work()
    assert await states(tenant, kb) == {"d": "empty"}
    assert await provider.inputs() == 0
    await tenant.assert_settled()


async def test_w9_a_text_that_vanishes_when_a_document_is_read_again_takes_its_chunks_along(
    tenant: Tenant, indexer: Replica
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", text_of(1, 2)))
    await indexer.work()
    assert await states(tenant, kb) == {"d": "indexed"}

    await indexer.publish(tenant.ocr("d", " \n ", revision=2))
    await indexer.work()

    assert await states(tenant, kb) == {"d": "empty"}
    assert await tenant.database[kb.vector_collection].count_documents({"until": None}) == 0
    await tenant.assert_holds(kb, {"d": " \n "})
    await tenant.assert_settled()
