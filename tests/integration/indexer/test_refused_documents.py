"""A knowledge base that refuses credentials indexes no document with one, whenever that was turned on."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from kb_contracts import topics
from kb_contracts.cloudevents import decode
from kb_contracts.outcomes import KB_EVENTS, DocumentIndexFailed, DocumentRejected
from kb_indexer.embedding_progress import NoteMissing
from kb_shared.chunking import Chunk
from kb_shared.embedding.embedder import Embedded
from kb_shared.metering.budget import SpendAllowance
from kb_shared.mongo import document_index, outbox
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.integration.indexer.support import Replica, Tenant, text_of

Later = Callable[[Callable[[], Awaitable[Any]]], None]
SECRET = "hunter2-Xy77-kk"
CLEAN, SENSITIVE = text_of(1), f"{text_of(1)}\n\nThe password = {SECRET} opens it."


async def publish(tenant: Tenant, indexer: Replica, text: str, *, revision: int = 1, document_id: str = "d") -> None:
    await indexer.publish(tenant.ocr(document_id, text, revision=revision))
    await indexer.work()


async def outcomes(tenant: Tenant) -> list[Any]:
    # All of them: those of other tests wait in the same collection.
    waiting = await outbox.find_unsent(tenant.database, range(outbox.BUCKETS), limit=100_000)
    of_kbs = [decode(each.value, KB_EVENTS)[1] for each in waiting if each.topic == topics.KB_EVENTS.name]
    return [each for each in of_kbs if getattr(each, "organization_id", None) == tenant.organization_id]


async def refused(tenant: Tenant) -> dict[str, str]:
    """Errors of the documents whose last attempt is over, by document."""
    jobs = (await tenant.jobs()).values()
    assert {(job.state, job.error_type) for job in jobs} <= {(IndexJobState.FAILED, "sensitive_content")}
    return {job.document_id: job.error_message or "" for job in jobs}


async def test_a_document_with_a_credential_is_refused_unpaid_until_a_version_without_one(
    tenant: Tenant, indexer: Replica, capsys: pytest.CaptureFixture[str]
) -> None:
    kb = await tenant.create_kb("a", refuse_sensitive=True)
    await publish(tenant, indexer, CLEAN)
    paid = await tenant.spus()
    await publish(tenant, indexer, SENSITIVE, revision=2)
    [message] = (await refused(tenant)).values()
    assert message.startswith("line 3 contains a credential (password), ")
    await tenant.assert_holds(kb, {"d": CLEAN})
    assert await tenant.spus() == paid
    announced = await outcomes(tenant)
    [failure] = [each for each in announced if isinstance(each, DocumentIndexFailed)]
    assert (failure.kb_id, failure.document_id, failure.revision) == (kb.kb_id, "d", 2)
    [rejection] = [each for each in announced if isinstance(each, DocumentRejected)]
    assert (rejection.kb_id, rejection.document_id, rejection.revision) == (kb.kb_id, "d", 2)
    assert (rejection.reason, rejection.detail) == ("sensitive-content", message)
    assert SECRET not in f"{rejection}{''.join(capsys.readouterr())}"
    await publish(tenant, indexer, text_of(1, 2), revision=3)
    await tenant.assert_holds(kb, {"d": text_of(1, 2)})
    await tenant.assert_settled()


async def test_turning_it_on_takes_documents_with_a_credential_out_and_turning_it_off_brings_them_back(
    tenant: Tenant, indexer: Replica
) -> None:
    kb = await tenant.create_kb("a")
    await publish(tenant, indexer, CLEAN, document_id="good")
    await publish(tenant, indexer, SENSITIVE, document_id="bad")
    paid = await tenant.spus()
    await indexer.change_kb(kb, refuse_sensitive=True)
    await indexer.scan()
    await indexer.work()
    assert list(await refused(tenant)) == ["bad"]
    await tenant.assert_holds(kb, {"good": CLEAN})
    await indexer.publish(tenant.described("good", {"password": SECRET}, revision=2))
    await indexer.work()
    assert list(await refused(tenant)) == ["bad", "good"]
    await tenant.assert_holds(kb, {"good": CLEAN})
    await indexer.change_kb(kb, refuse_sensitive=False)
    await indexer.scan()
    await indexer.work()
    await tenant.assert_holds(kb, {"good": CLEAN, "bad": SENSITIVE})
    await tenant.assert_settled()
    assert await tenant.spus() == paid


@pytest.fixture
def during_next_work(indexer: Replica, monkeypatch: pytest.MonkeyPatch) -> Later:
    """Have something happen after a document was checked and before it is swapped."""
    embed = indexer.sync._embed
    waiting: list[Callable[[], Awaitable[Any]]] = []

    async def embed_later(
        chunks: Sequence[Chunk], kb: KnowledgeBase, allowance: SpendAllowance, *, on_missing: NoteMissing
    ) -> Embedded:
        while waiting:
            await waiting.pop()()
        return await embed(chunks, kb, allowance, on_missing=on_missing)

    monkeypatch.setattr(indexer.sync, "_embed", embed_later)
    return waiting.append


async def test_what_was_decided_before_it_was_turned_on_is_not_indexed(
    tenant: Tenant, indexer: Replica, during_next_work: Later
) -> None:
    kb = await tenant.create_kb("a")
    during_next_work(lambda: indexer.change_kb(kb, refuse_sensitive=True))
    await publish(tenant, indexer, SENSITIVE)
    assert list(await refused(tenant)) == ["d"]
    await tenant.assert_holds(kb, {})


async def test_metadata_that_come_after_the_check_are_checked(
    tenant: Tenant, indexer: Replica, during_next_work: Later
) -> None:
    kb = await tenant.create_kb("a", refuse_sensitive=True)
    during_next_work(lambda: indexer.publish(tenant.described("d", {"password": SECRET}, revision=2)))
    await publish(tenant, indexer, CLEAN)
    [message] = (await refused(tenant)).values()
    assert message.startswith("line 1 of the metadata contains a credential (password), ")
    await tenant.assert_holds(kb, {})


async def test_the_reconciler_has_documents_checked_that_were_not(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a", refuse_sensitive=True)
    await publish(tenant, indexer, CLEAN)
    of_document = {"organization_id": tenant.organization_id, "document_id": "d"}
    # As an indexer of an older version leaves it.
    await tenant.database[document_index.NAME].update_one(of_document, {"$unset": {"content_checked": ""}})
    report = await indexer.reconcile(kb)
    assert report.found["wrong_config"] == 1
    await indexer.work()
    row = await tenant.database[document_index.NAME].find_one(of_document)
    assert row is not None
    assert row["content_checked"] is True
    await tenant.assert_settled()
