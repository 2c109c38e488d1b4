"""A knowledge base takes so many documents and chunks; what is in it already is never in its own way."""

import pytest

from kb_indexer import size_limits
from kb_indexer.size_limits import SizeLimits
from kb_shared.mongo import backfills
from kb_shared.mongo.backfills import Kind
from kb_shared.mongo.database import MongoSession, in_transaction
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.integration.indexer.support import Replica, Tenant, chunks_of_text, text_of


@pytest.fixture
def counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test that is about limits and not about the seconds by which they are late."""
    monkeypatch.setattr(size_limits, "COUNTED_FOR_S", 0.0)


def limit(indexer: Replica, *, max_documents: int = 0, max_chunks: int = 0) -> None:
    indexer.sync._size_limits = SizeLimits(indexer.database, max_documents=max_documents, max_chunks=max_chunks)


async def publish(tenant: Tenant, indexer: Replica, document_id: str, text: str, *, revision: int = 1) -> None:
    await indexer.publish(tenant.ocr(document_id, text, revision=revision))
    await indexer.work()


async def retry_failed(tenant: Tenant, kb: KnowledgeBase) -> None:
    async def start(session: MongoSession) -> None:
        await backfills.start(
            tenant.database,
            session,
            KnowledgeBaseKey(tenant.organization_id, kb.kb_id),
            traceparent="",
            kind=Kind.RETRY_FAILED,
        )

    await in_transaction(tenant.database, start)


async def failures(tenant: Tenant) -> dict[str, str]:
    jobs = (await tenant.jobs()).values()
    assert {(job.state, job.error_type) for job in jobs} <= {(IndexJobState.FAILED, "knowledge_base_full")}
    return {job.document_id: job.error_message or "" for job in jobs}


@pytest.mark.usefixtures("counted_again")
async def test_a_document_beyond_the_limit_fails_unpaid_and_those_inside_still_change(
    tenant: Tenant, indexer: Replica
) -> None:
    await tenant.create_kb("a")
    limit(indexer, max_documents=2)
    for number, document_id in enumerate(("one", "two")):
        await publish(tenant, indexer, document_id, text_of(number))
    paid = await tenant.spus()
    await publish(tenant, indexer, "three", text_of(7))
    assert await tenant.spus() == paid
    failed = await failures(tenant)
    assert list(failed) == ["three"]
    assert "may have 2 (KB_MAX_DOCUMENTS_OF_KNOWLEDGE_BASE)" in failed["three"]
    await publish(tenant, indexer, "two", text_of(8), revision=2)
    assert list(await failures(tenant)) == ["three"]
    assert await tenant.spus() > paid


@pytest.mark.usefixtures("counted_again")
async def test_a_document_whose_chunks_have_no_room_fails_unpaid_and_a_smaller_one_does_not(
    tenant: Tenant, indexer: Replica
) -> None:
    await tenant.create_kb("a")
    small, large = text_of(1), text_of(*range(10, 30))
    of_small, of_large = len(chunks_of_text(small)), len(chunks_of_text(large))
    assert of_large > of_small + 2
    limit(indexer, max_chunks=of_large)
    await publish(tenant, indexer, "small", small)
    paid = await tenant.spus()
    await publish(tenant, indexer, "large", large)
    assert await tenant.spus() == paid
    failed = await failures(tenant)
    assert list(failed) == ["large"]
    assert f"no room for the {of_large} of this document (KB_MAX_CHUNKS_OF_KNOWLEDGE_BASE)" in failed["large"]
    # In the place of what it has now it fits.
    await publish(tenant, indexer, "small", large, revision=2)
    assert list(await failures(tenant)) == ["large"]
    assert await tenant.spus() == paid + of_large
    # A limit that is lowered below what is there refuses what would grow, and nothing else.
    limit(indexer, max_chunks=1)
    shorter = text_of(*range(10, 25))
    assert 1 < len(chunks_of_text(shorter)) < of_large
    await publish(tenant, indexer, "small", shorter, revision=3)
    assert list(await failures(tenant)) == ["large"]
    await publish(tenant, indexer, "small", large, revision=4)
    assert sorted(await failures(tenant)) == ["large", "small"]


@pytest.mark.parametrize("means", ["deleted", "raised"])
@pytest.mark.usefixtures("counted_again")
async def test_a_document_that_failed_is_indexed_by_a_retry_once_there_is_room(
    tenant: Tenant, indexer: Replica, means: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = await tenant.create_kb("a")
    limit(indexer, max_documents=1)
    texts = {"one": text_of(1), "two": text_of(2)}
    for document_id, text in texts.items():
        await publish(tenant, indexer, document_id, text)
    # The retry must not go by what was counted when this one found it full.
    monkeypatch.setattr(size_limits, "COUNTED_FOR_S", 3600.0)
    limit(indexer, max_documents=1)
    await publish(tenant, indexer, "two", texts["two"], revision=2)
    assert list(await failures(tenant)) == ["two"]
    if means == "deleted":
        await indexer.publish(tenant.deleted("one", revision=2))
        del texts["one"]
    else:
        limit(indexer, max_documents=2)
    await indexer.work()
    await retry_failed(tenant, kb)
    await indexer.scan()
    await indexer.work()
    assert await failures(tenant) == {}
    await tenant.assert_holds(kb, texts)


async def test_metadata_that_the_chunks_can_not_all_carry_fail_their_document_unpaid_and_shorter_ones_do_not(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = await tenant.create_kb("a")
    text = text_of(*range(10, 30))
    chunks = len(chunks_of_text(text))
    # A key of one byte, and umlauts of two.
    monkeypatch.setattr(size_limits, "MAX_METADATA_COPIES_BYTES", chunks * 101)
    await indexer.publish(tenant.ocr("long", text, metadata={"k": "ü" * 51}))
    await indexer.work()
    assert await tenant.spus() == 0
    [job] = (await tenant.jobs()).values()
    assert (job.state, job.error_type) == (IndexJobState.FAILED, "document_unfit")
    assert f"103 bytes, and each of its {chunks} chunks has a copy" in (job.error_message or "")
    await indexer.publish(tenant.described("long", {"k": "ü" * 50}, revision=2))
    await indexer.work()
    await tenant.assert_holds(kb, {"long": text})
    # Without new chunks, too: what was there before stays searchable.
    await indexer.publish(tenant.described("long", {"k": "ü" * 51}, revision=3))
    await indexer.work()
    [job] = (await tenant.jobs()).values()
    assert (job.state, job.error_type) == (IndexJobState.FAILED, "document_unfit")
    await tenant.assert_holds(kb, {"long": text})
