"""What waits: for a provider, a key, a limit, a budget. It delays no other work, and no longer than it must."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kb_contracts import topics
from kb_contracts.commands import SyncDocument
from kb_indexer import sync_document
from kb_indexer.chunk_document import chunk_document
from kb_shared import failpoints
from kb_shared.mongo import budgets, document_texts, index_jobs, provider_pauses
from kb_shared.mongo.budgets import BudgetLimits
from kb_shared.mongo.index_jobs import IndexJob, IndexJobState
from kb_shared.mongo.keys import DocumentKey
from kb_shared.mongo.provider_pauses import ProviderPause
from kb_shared.providers.known_providers import LOCAL, PROVIDERS
from tests.integration.indexer.conftest import ModelControls
from tests.integration.indexer.support import Replica, Tenant, paragraph, record, text_of

TEXT = text_of(1, 2, 3)


async def the_job(tenant: Tenant) -> IndexJob:
    (job,) = (await tenant.jobs()).values()
    return job


async def let_jobs_try_again(tenant: Tenant) -> None:
    """Their time has come, but what they wait for is as it was."""
    await tenant.database[index_jobs.NAME].update_many(
        {"organization_id": tenant.organization_id, "state": IndexJobState.PENDING},
        {"$set": {"next_attempt_at": datetime.now(UTC) - timedelta(seconds=1), "postponed_until": None}},
    )


@pytest.fixture
def chunked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the KB of each document that was chunked."""
    kb_ids: list[str] = []

    async def noting(stored: Any, kb: Any, **rest: Any) -> Any:
        kb_ids.append(kb.kb_id)
        return await chunk_document(stored, kb, **rest)

    monkeypatch.setattr(sync_document, "chunk_document", noting)
    return iter([kb_ids])


@pytest.mark.parametrize("why", ["provider_auth", "rate_limited", "budget_exhausted"])
async def test_a_waiting_document_is_not_chunked_before_it_is_due(
    tenant: Tenant, indexer: Replica, provider: ModelControls, chunked: Iterator[list[str]], why: str
) -> None:
    noted = next(chunked)
    kb = await tenant.create_kb("a")
    if why == "provider_auth":
        await provider.program_faults({"status": 401})
    elif why == "budget_exhausted":
        await budgets.set_limits(tenant.database, tenant.organization_id, BudgetLimits(soft=None, hard=0))
    else:
        await tenant.database.knowledge_bases.update_one(
            {"_id": kb.kb_id}, {"$set": {"rate_limits": {"tokens_per_minute": 1}}}
        )
        await indexer.publish(tenant.ocr("first", text_of(9)))
        await indexer.handle_commands()
        noted.clear()
    await indexer.publish(*(tenant.ocr(f"d{number}", text_of(number, 50)) for number in range(3)))
    await indexer.handle_commands()
    assert {job.error_type for job in (await tenant.jobs()).values()} == {why}
    before = len(noted)

    await let_jobs_try_again(tenant)
    await indexer.work()

    assert len(noted) == before
    assert {job.error_type for job in (await tenant.jobs()).values()} == {why}
    assert {job.attempts for job in (await tenant.jobs()).values()} == {0}


@pytest.mark.parametrize("asked", [1e7, 1e15, 1e30])
async def test_a_provider_that_asks_for_months_is_asked_again_within_two_hours(
    tenant: Tenant, indexer: Replica, provider: ModelControls, asked: float
) -> None:
    await tenant.create_kb("a")
    await provider.program_faults({"status": 429, "retry_after_s": asked})
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.handle_commands()

    job = await the_job(tenant)
    assert (job.state, job.attempts) == (IndexJobState.PENDING, 0)
    assert job.postponed_until is not None
    assert job.postponed_until - datetime.now(UTC) < timedelta(hours=2)


async def test_a_key_that_is_missing_is_waited_for(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in PROVIDERS["openai"].keys:
        monkeypatch.delenv(variable, raising=False)
    await tenant.create_kb("a", model="text-embedding-3-small", dimensions=1536)
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.handle_commands()

    job = await the_job(tenant)
    assert (job.state, job.attempts, job.error_type) == (IndexJobState.PENDING, 0, "provider_key_missing")
    assert "OPENAI_API_KEY" in (job.error_message or "")


async def test_a_document_waits_while_another_model_answers_under_the_name_of_the_knowledge_bases_model(
    tenant: Tenant, indexer: Replica
) -> None:
    kb = await tenant.create_kb("a")
    of_another = {"vector_fingerprint": "0" * 16, "vector_sample": [1.0] * 16}
    await tenant.database.knowledge_bases.update_one({"_id": kb.kb_id}, {"$set": of_another})
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.handle_commands()

    job = await the_job(tenant)
    assert (job.state, job.attempts, job.error_type) == (IndexJobState.PENDING, 0, "other_vectors")
    assert "store the former address" in (job.error_message or "")


async def test_a_command_that_comes_again_uses_up_no_attempt(
    tenant: Tenant, indexer: Replica, provider: ModelControls
) -> None:
    await tenant.create_kb("a")
    await provider.program_faults({"kind": "short"})
    await indexer.publish(tenant.ocr("d", TEXT))
    commands = list(indexer.producer.sent)
    for _ in range(4):
        indexer.producer.sent = list(commands)
        await indexer.handle_commands()

    job = await the_job(tenant)
    assert (job.state, job.attempts, job.error_type) == (IndexJobState.PENDING, 1, "bad_answer")


async def test_after_the_broker_lost_its_messages_what_is_postponed_still_waits_for_its_time(
    own_tenant: Tenant, own_indexer: Replica, provider: ModelControls
) -> None:
    await own_tenant.create_kb("a")
    await provider.program_faults({"kind": "short"})
    await own_indexer.publish(own_tenant.ocr("d", TEXT))
    await own_indexer.handle_commands()
    postponed = await the_job(own_tenant)

    await index_jobs.make_all_due(own_tenant.database)

    assert (await the_job(own_tenant)).next_attempt_at == postponed.postponed_until


async def test_a_text_that_is_damaged_fails_its_own_document_only(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_texts, "_INLINE_BYTES", 10)
    other = Tenant(tenant.database)
    damaged, sound = await tenant.create_kb("a"), await other.create_kb("a")
    await indexer.publish(tenant.ocr("d", text_of(7, 8)), other.ocr("d", TEXT))
    row = await tenant.database[document_texts.NAME].find_one({"organization_id": tenant.organization_id})
    assert row is not None
    await tenant.database[f"{document_texts.NAME}.chunks"].delete_many({"files_id": row["file_id"]})

    messages = indexer.producer.sent_to(topics.INDEX_REQUESTS.name)
    # At the same time, so that they ask for their texts together.
    await asyncio.gather(*(handle(indexer, message) for message in messages))

    await other.assert_holds(sound, {"d": TEXT})
    job = await the_job(tenant)
    assert (job.kb_id, job.state) == (damaged.kb_id, IndexJobState.PENDING)
    assert job.error_message == "the text of this revision is not stored"


async def handle(indexer: Replica, message: Any) -> None:
    await indexer.sync.handle(record(message.value, key=message.key, topic=message.topic))


async def test_a_job_whose_claim_was_cancelled_is_free_at_once(
    tenant: Tenant, indexer: Replica, expired_leases_replica: Replica
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    command = SyncDocument(organization_id=tenant.organization_id, kb_id=kb.kb_id, document_id="d", reason="ocr")

    async def claim() -> None:
        async with indexer.leases.hold(command):
            raise AssertionError("cancelled before")

    claiming = asyncio.create_task(claim())
    await asyncio.sleep(0)
    claiming.cancel()
    await asyncio.wait([claiming])

    job = await the_job(tenant)
    assert (job.state, job.lease_owner, job.attempts) == (IndexJobState.PENDING, None, 0)


async def test_a_command_that_comes_while_the_last_one_of_its_document_ends_is_not_lost(
    tenant: Tenant, indexer: Replica
) -> None:
    """It comes on the other lane, when the job of the last one is deleted already."""
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    handling: list[asyncio.Task[None]] = []

    async def ask_again() -> None:
        if handling:
            return
        await indexer.publish(tenant.ocr("d", text_of(7, 8), revision=2))
        [message] = indexer.producer.sent_to(topics.INDEX_REQUESTS.name)
        handling.append(asyncio.create_task(handle(indexer, message)))
        await asyncio.wait(handling, timeout=0.1)

    async with failpoints.during("swap.after_commit", ask_again):
        await indexer.handle_commands()
        await asyncio.gather(*handling)

    await tenant.assert_holds(kb, {"d": text_of(7, 8)})
    await tenant.assert_settled()


async def test_a_text_that_an_event_refers_to_is_young_again(tenant: Tenant, indexer: Replica) -> None:
    await tenant.create_kb("a")
    identity = await document_texts.put(tenant.database, DocumentKey(tenant.organization_id, "d"), TEXT)
    long_ago = datetime.now(UTC) - timedelta(days=3)
    await tenant.database[document_texts.NAME].update_one({"_id": identity}, {"$set": {"created_at": long_ago}})

    await indexer.publish(tenant.ocr("d", None, text_ref=identity))

    assert not await document_texts.delete_if_older(tenant.database, identity, timedelta(days=1))


async def test_old_texts_are_listed_without_being_read(tenant: Tenant) -> None:
    await document_texts.put(tenant.database, DocumentKey(tenant.organization_id, "d"), TEXT)
    explained = await tenant.database.command(
        "explain",
        {
            "find": document_texts.NAME,
            "filter": {"created_at": {"$lt": datetime.now(UTC)}, "_id": {"$gt": ""}},
            "projection": {"_id": 1},
            "sort": {"_id": 1},
        },
        verbosity="executionStats",
    )
    assert explained["executionStats"]["totalDocsExamined"] == 0
    assert explained["executionStats"]["nReturned"] > 0


async def test_documents_wait_for_a_paused_provider_unless_their_vectors_are_there_and_are_indexed_once_it_resumes(
    tenant: Tenant, indexer: Replica, provider: ModelControls
) -> None:
    paid, other = await tenant.create_kb("a"), await tenant.create_kb("b")
    await indexer.publish(tenant.ocr("known", TEXT, tags=["a"]))
    await indexer.work()
    embedded = await provider.inputs()
    pause = ProviderPause(tenant.organization_id, LOCAL, datetime.now(UTC), "key")
    await provider_pauses.pause(tenant.database, pause)
    indexer.embedder._paused._known.discard(tenant.organization_id)

    await indexer.publish(tenant.ocr("same", TEXT, tags=["b"]), tenant.ocr("new", paragraph(7), tags=["a"]))
    await indexer.work()

    await tenant.assert_holds(other, {"same": TEXT})
    job = await the_job(tenant)
    assert (job.document_id, job.state, job.attempts) == ("new", IndexJobState.PENDING, 0)
    assert job.error_type == "provider_paused"
    assert await provider.inputs() == embedded

    await provider_pauses.resume(tenant.database, tenant.organization_id, LOCAL)
    await index_jobs.make_due(tenant.database, tenant.organization_id, error_type="provider_paused")
    await indexer.work()

    await tenant.assert_holds(paid, {"known": TEXT, "new": paragraph(7)})
    await tenant.assert_settled()
