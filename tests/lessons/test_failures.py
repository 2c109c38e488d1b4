"""One thing that fails, and everything else that must not care. See docs/explanation/lessons.md."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

import pytest
from pymongo.errors import AutoReconnect

from kb_reconciler.drift import confirmation
from kb_shared import failpoints
from kb_shared.embedding.provider import Provider as EmbeddingProvider
from kb_shared.errors import BatchRefused, KbError, ProviderUnavailable
from kb_shared.membership import Action
from kb_shared.membership.drift import find_drift
from kb_shared.mongo import index_jobs, knowledge_bases, leases
from kb_shared.mongo.database import Database
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.keys import KnowledgeBaseKey, MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase, Status
from tests.integration.embedding.test_provider import Echo
from tests.integration.indexer.conftest import ModelControls
from tests.integration.indexer.support import Replica, Tenant, paragraph, text_of


async def test_w1_of_many_concurrent_requests_for_a_lease_one_gets_it_and_the_others_get_false(
    shared_database: Database,
) -> None:
    """Elsewhere the second to come got an error instead of an answer."""
    for _ in range(10):
        name = uuid4().hex
        taken = await asyncio.gather(
            *(leases.acquire(shared_database, name, owner=f"o{n}", length=timedelta(seconds=9)) for n in range(12))
        )
        assert sorted(taken) == [False] * 11 + [True]


async def test_w1_a_knowledge_base_that_can_not_be_gone_through_keeps_no_other_from_its_pass(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere the first error ended the loop over all that came after it."""
    await indexer.publish(tenant.ocr("d", paragraph(1)))
    unlucky, *others = [await tenant.create_kb("a") for _ in range(3)]

    async def find_drift_unless_unlucky(
        database: Database, kb: KnowledgeBase, document_ids: Sequence[str]
    ) -> dict[str, Action]:
        if kb.kb_id == unlucky.kb_id:
            raise AutoReconnect("its shard is away")
        return await find_drift(database, kb, document_ids)

    monkeypatch.setattr(confirmation, "find_drift", find_drift_unless_unlucky)
    report = await indexer.full_pass()

    assert report.skipped == 1
    assert unlucky.kb_id in report.unfinished_kb_ids
    assert (await tenant.jobs()).keys() == {(kb.kb_id, "d") for kb in others}


async def test_w2_a_document_the_provider_refuses_does_not_harm_its_knowledge_base(
    tenant: Tenant, indexer: Replica, provider: ModelControls
) -> None:
    """Elsewhere one chunk that was too long switched the whole knowledge base off, for good."""
    kb = await tenant.create_kb("a")
    await provider.program_faults({"status": 400, "min_text_chars": 200})
    poison = "responsibility " * 100
    sound = {"before": text_of(1, 2), "after": text_of(3, 4)}
    await indexer.publish(tenant.ocr("before", sound["before"]), tenant.ocr("poison", poison))
    await indexer.work()
    await indexer.publish(tenant.ocr("after", sound["after"]))
    await indexer.work()

    await tenant.assert_holds(kb, sound)
    job = await index_jobs.find(tenant.database, MembershipKey(tenant.organization_id, kb.kb_id, "poison"))
    assert job is not None
    assert (job.state, job.error_type) == (IndexJobState.FAILED, "text_refused")
    stored = await knowledge_bases.find(tenant.database, KnowledgeBaseKey(tenant.organization_id, kb.kb_id))
    assert stored is not None
    assert stored.status is Status.ACTIVE

    await indexer.publish(tenant.ocr("poison", paragraph(5), revision=2))
    await indexer.work()
    await tenant.assert_holds(kb, sound | {"poison": paragraph(5)})
    await tenant.assert_settled()


async def test_w4_an_error_whose_words_hold_the_digits_of_a_status_is_not_taken_for_one(
    tenant: Tenant, indexer: Replica
) -> None:
    """Elsewhere an id with 400 in it made an error permanent."""
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", paragraph(1)))
    failures: list[str] = []

    async def fail_once() -> None:
        if not failures:
            failures.append("once")
            raise ValueError("Document 64b4001f2e not found, after 401, 403 and 429")

    async with failpoints.during("sync.after_chunking", fail_once):
        await indexer.handle_commands()
        [job] = (await tenant.jobs()).values()
        assert (job.state, job.error_type) == (IndexJobState.PENDING, "internal_error")
        await tenant.make_due()
        await indexer.work()
    await tenant.assert_holds(kb, {"d": paragraph(1)})


@pytest.mark.parametrize(
    ("status", "words", "meaning"),
    [
        (503, "Error 400: invalid request, 401, insufficient_quota", ProviderUnavailable),
        (400, "429 Too Many Requests, 503 Service Unavailable, try again", BatchRefused),
    ],
)
async def test_w4_what_a_provider_says_in_words_decides_nothing(
    status: int, words: str, meaning: type[KbError]
) -> None:
    """Elsewhere what to do about an error was read from its message, which quotes the text."""
    echo, provider = Echo(status=status), EmbeddingProvider(timeout_s=30)
    async with await asyncio.start_server(echo.answer, "127.0.0.1", 0) as server:
        echo.port = server.sockets[0].getsockname()[1]
        with pytest.raises(KbError) as failed:
            await provider.embed(
                [words], model=echo.catalogue().get("text-embedding-3-small"), dimensions=1536, input_type="document"
            )
    await provider.close()
    assert type(failed.value) is meaning
