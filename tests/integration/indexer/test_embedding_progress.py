"""People see how far a large document is, and a small one costs no write more for it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from kb_contracts.commands import Reason, SyncDocument
from kb_shared.mongo import document_texts, documents, index_jobs, spu_ledger
from kb_shared.mongo.document_texts import NewText
from kb_shared.mongo.index_jobs import IndexJob, SyncRequest
from kb_shared.mongo.keys import DocumentKey
from tests.integration.indexer.support import CommandLog, Replica, Tenant, text_of

LEASE = timedelta(seconds=30)
TRACE = f"00-{'1' * 32}-{'2' * 16}-01"


def noted(log: CommandLog) -> list[tuple[int, int]]:
    """Return what was written of the progress of documents, in order: chunks, and those that have their vectors."""
    written: list[tuple[int, int]] = []
    for command in log.commands:
        if command.get("update") == index_jobs.NAME:
            changes: list[Any] = [each["u"] for each in command["updates"] if isinstance(each["u"], dict)]
            fields = [each.get("$set", {}) for each in changes]
            written += [(each["chunk_count"], each["embedded_count"]) for each in fields if "embedded_count" in each]
    return written


async def claimed(tenant: Tenant, document_id: str = "d") -> IndexJob:
    kb = await tenant.create_kb("a")
    command = SyncDocument(
        organization_id=tenant.organization_id, kb_id=kb.kb_id, document_id=document_id, reason=Reason.BACKFILL
    )
    await index_jobs.request(tenant.database, [SyncRequest([command], TRACE, datetime.now(UTC))])
    return (await index_jobs.claim_all(tenant.database, [command], owner="one", lease=LEASE))[command]


async def stored(tenant: Tenant) -> IndexJob:
    [job] = (await tenant.jobs()).values()
    return job


async def test_the_job_of_a_large_document_says_how_many_of_its_chunks_have_vectors(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", text_of(*range(250), about="progress of one")))
    command_log.clear()
    await indexer.handle_commands()
    written = noted(command_log)
    answers = await tenant.database[spu_ledger.NAME].count_documents({"organization_id": tenant.organization_id})
    assert written[0] == (250, 0)
    assert written == sorted(written)
    assert {chunks for chunks, _ in written} == {250}
    # One before the first answer, and none after the last one.
    assert len(written) <= answers
    assert await tenant.jobs() == {}


async def test_a_document_whose_vectors_come_in_one_answer_costs_no_write_more(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", text_of(1, 2, 3, about="progress of none")))
    command_log.clear()
    await indexer.handle_commands()
    assert noted(command_log) == []


async def test_vectors_that_were_paid_for_before_count_from_the_beginning(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", text_of(*range(120), about="what is kept")))
    await indexer.handle_commands()
    await indexer.publish(tenant.ocr("e", text_of(*range(300), about="what is kept")))
    command_log.clear()
    await indexer.handle_commands()
    assert noted(command_log)[0] == (300, 120)


async def test_the_row_of_a_document_says_how_long_its_text_is_wherever_that_comes_from(
    tenant: Tenant, indexer: Replica
) -> None:
    text = "Zwölf Boxkämpfer jagen Viktor."
    stored_text = NewText(DocumentKey(tenant.organization_id, "e"), text)
    await document_texts.put_all(tenant.database, [stored_text])
    await indexer.publish(tenant.ocr("d", text), tenant.ocr("e", None, text_ref=stored_text.identity))
    found = await documents.find_by_ids(tenant.database, tenant.organization_id, ["d", "e"])
    assert {each.text and each.text.length for each in found.values()} == {30}


async def test_a_worker_that_lost_the_job_notes_nothing(tenant: Tenant) -> None:
    job = await claimed(tenant)
    command = job.command()
    await index_jobs.give_back(tenant.database, job, owner="one")
    await index_jobs.claim_all(tenant.database, [command], owner="two", lease=LEASE)
    await index_jobs.note_embedded(tenant.database, job, chunks=400, embedded=100)
    assert (await stored(tenant)).chunk_count is None


async def test_a_new_request_forgets_the_chunks_of_the_text_before(tenant: Tenant) -> None:
    job = await claimed(tenant)
    await index_jobs.note_embedded(tenant.database, job, chunks=400, embedded=100)
    assert ((await stored(tenant)).chunk_count, (await stored(tenant)).embedded_count) == (400, 100)
    await index_jobs.request(tenant.database, [SyncRequest([job.command()], TRACE, datetime.now(UTC))])
    assert ((await stored(tenant)).chunk_count, (await stored(tenant)).embedded_count) == (None, 0)
    # The worker still has the lease, and its text may be the one before.
    await index_jobs.note_embedded(tenant.database, job, chunks=400, embedded=200)
    assert (await stored(tenant)).chunk_count is None
