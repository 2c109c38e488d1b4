"""An event is never lost, and never without its commands."""

import asyncio
import contextlib
from typing import Any

import pytest

from kb_contracts.commands import SyncDocument
from kb_contracts.documents import Page, TagDeleted, TagUpserted
from kb_contracts.errors import Rejected
from kb_indexer.consumer.load import LONGEST_BATCH_S
from kb_indexer.project_events import Projection, Projector
from kb_shared import failpoints
from kb_shared.mongo import citations, document_texts, documents, tags
from kb_shared.mongo.database import Row
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.keys import DocumentKey
from tests.integration.indexer.support import LANES, CommandLog, Replica, Tenant, decoded, text_of
from tests.integration.indexer.tenancy import organizations_named, queries_without_organization
from tests.waiting import until

TEXT = text_of(1, 2, 3)


class Crash(Exception):
    """The process ends here."""


async def crash() -> None:
    raise Crash


def commands(indexer: Replica) -> list[tuple[str, str]]:
    """(KB, document) of what was sent, taken away."""
    values = [message.value or b"" for message in indexer.producer.sent_to(*LANES)]
    return [(command.kb_id, command.document_id) for command in decoded(values, SyncDocument)]


@pytest.mark.parametrize(
    "failpoint",
    ["fan_out.before_projection", "fan_out.after_text", "fan_out.after_projection", "fan_out.after_jobs"],
)
async def test_an_event_that_comes_again_after_a_crash_sends_what_the_first_try_did_not(
    tenant: Tenant, indexer: Replica, failpoint: str
) -> None:
    kbs = [await tenant.create_kb("a"), await tenant.create_kb("a")]
    event = tenant.ocr("d", TEXT)
    async with failpoints.during(failpoint, crash):
        with pytest.raises(Crash):
            await indexer.publish(event)
    assert indexer.producer.sent == []

    await indexer.publish(event)
    await indexer.work()

    for kb in kbs:
        await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()


async def test_while_documents_are_indexed_later_events_begin_together(tenant: Tenant, indexer: Replica) -> None:
    begun: list[str] = []
    go_on = asyncio.Event()

    async def block() -> None:
        begun.append("event")
        await go_on.wait()

    with contextlib.ExitStack() as documents_at_work:
        for _ in range(indexer.load.limit()):
            documents_at_work.enter_context(indexer.load.at_work())
        async with failpoints.during("fan_out.before_projection", block), asyncio.TaskGroup() as group:
            group.create_task(indexer.publish(tenant.ocr("first", TEXT)))
            await until(lambda: len(begun) == 1)
            later = [group.create_task(indexer.publish(tenant.ocr(f"later-{n}", TEXT))) for n in range(2)]
            await asyncio.wait(later, timeout=LONGEST_BATCH_S / 10)
            assert len(begun) == 1
            go_on.set()
    assert len(begun) == 3


async def test_a_stale_event_requests_drifted_documents_all_the_same(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT, revision=1))
    async with failpoints.during("fan_out.after_projection", crash):
        with pytest.raises(Crash):
            await indexer.publish(tenant.ocr("d", text_of(4), revision=3))
    indexer.producer.sent_to(*LANES)

    await indexer.publish(tenant.ocr("d", text_of(5), revision=2))

    assert commands(indexer) == [(kb.kb_id, "d")]


async def test_an_event_that_changed_nothing_and_left_no_drift_sends_nothing(tenant: Tenant, indexer: Replica) -> None:
    await tenant.create_kb("a")
    event = tenant.ocr("d", TEXT)
    await indexer.publish(event)
    await indexer.work()

    await indexer.publish(event)

    assert commands(indexer) == []
    await tenant.assert_settled()


async def test_a_job_that_a_crash_left_with_nothing_to_do_ends_when_its_event_comes_again(
    tenant: Tenant, indexer: Replica
) -> None:
    await tenant.create_kb("a", max_chunks=1)
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()
    assert [job.state for job in (await tenant.jobs()).values()] == [IndexJobState.FAILED]
    deleted = tenant.deleted("d", revision=2)
    async with failpoints.during("fan_out.after_projection", crash):
        with pytest.raises(Crash):
            await indexer.publish(deleted)

    await indexer.publish(deleted)
    await indexer.work()

    await tenant.assert_settled()


async def test_citations_are_deleted_with_their_document_and_an_older_deletion_leaves_them(
    tenant: Tenant, indexer: Replica
) -> None:
    rows, another = indexer.database[citations.NAME], f"{tenant.organization_id}-b"
    mine: Row = {"organization_id": {"$in": [tenant.organization_id, another]}}
    await rows.insert_many(
        [
            {"organization_id": tenant.organization_id, "document_id": "d"},
            {"organization_id": tenant.organization_id, "document_id": "other"},
            {"organization_id": another, "document_id": "d"},
        ]
    )
    await indexer.publish(tenant.ocr("d", TEXT, revision=2))
    await indexer.publish(tenant.deleted("d", revision=1))
    assert await rows.count_documents(mine) == 3

    await indexer.publish(tenant.deleted("d", revision=3))

    left = [(row["organization_id"], row["document_id"]) async for row in rows.find(mine).sort("document_id", -1)]
    assert left == [(tenant.organization_id, "other"), (another, "d")]


async def test_a_document_without_a_text_waits_for_it_though_a_crash_came_before_its_job(
    tenant: Tenant, indexer: Replica
) -> None:
    await tenant.create_kb("a")
    event = tenant.tagged("d", "a", revision=1)
    async with failpoints.during("fan_out.after_projection", crash):
        with pytest.raises(Crash):
            await indexer.publish(event)

    await indexer.publish(event)
    await indexer.work()

    assert [job.state for job in (await tenant.jobs()).values()] == [IndexJobState.WAITING_FOR_TEXT]


async def test_a_document_is_only_offered_to_its_own_organizations_knowledge_bases(
    tenant: Tenant, indexer: Replica
) -> None:
    other = Tenant(tenant.database)
    theirs, ours = await other.create_kb("a"), await tenant.create_kb("a")

    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()

    await tenant.assert_holds(ours, {"d": TEXT})
    await other.assert_holds(theirs, {})
    assert await other.spus() == 0
    await other.assert_settled()


async def test_a_text_is_found_by_its_reference_and_by_no_other_organization_or_document(
    tenant: Tenant, indexer: Replica
) -> None:
    other = Tenant(tenant.database)
    kb, theirs = await tenant.create_kb("a"), await other.create_kb("a")
    reference = await document_texts.put(tenant.database, DocumentKey(tenant.organization_id, "d"), TEXT)

    for event in (
        other.ocr("d", None, text_ref=reference),
        tenant.ocr("e", None, text_ref=reference),
        tenant.ocr("d", None, text_ref=f"{tenant.organization_id}/d/{'0' * 64}"),
        tenant.ocr("d", None, text_ref=f"{tenant.organization_id}/d/../{reference}"),
    ):
        with pytest.raises(Rejected) as rejected:
            await indexer.publish(event)
        assert rejected.value.reason == "unknown-text-ref"
        assert rejected.value.detail == "no text is stored under this text_ref for this document"
    assert await documents.find(tenant.database, DocumentKey(tenant.organization_id, "d")) is None

    await indexer.publish(tenant.ocr("d", None, text_ref=reference))
    await indexer.work()
    await tenant.assert_holds(kb, {"d": TEXT})
    await other.assert_holds(theirs, {})


async def test_only_few_texts_of_events_are_in_memory_at_once(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents_at_once = [f"d{number}" for number in range(40)]
    references = [
        await document_texts.put(tenant.database, DocumentKey(tenant.organization_id, document_id), TEXT)
        for document_id in documents_at_once
    ]
    apply, at_work, most = Projector._apply, 0, 0

    async def counted(self: Projector, *events_and_texts: Any) -> Projection:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        try:
            return await apply(self, *events_and_texts)
        finally:
            at_work -= 1

    monkeypatch.setattr(Projector, "_apply", counted)
    events = [
        tenant.ocr(document_id, None, text_ref=reference)
        for document_id, reference in zip(documents_at_once, references, strict=True)
    ]
    await asyncio.gather(*(indexer.publish(event) for event in events))
    assert 1 < most <= 8

    with_texts = [tenant.ocr(document_id, TEXT, revision=2) for document_id in documents_at_once]
    most = 0
    await asyncio.gather(*(indexer.publish(event) for event in with_texts))
    assert most > 8, "events that bring their texts are counted by their bytes already"


async def test_pages_given_with_a_reference_must_be_pages_of_its_text(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    reference = await document_texts.put(tenant.database, DocumentKey(tenant.organization_id, "d"), TEXT)
    event = tenant.ocr("d", None, text_ref=reference)

    with pytest.raises(Rejected) as rejected:
        await indexer.publish(event.model_copy(update={"pages": [Page(page=1, start=0, end=len(TEXT) + 1)]}))
    assert rejected.value.reason == "bad-data"

    await indexer.publish(event.model_copy(update={"pages": [Page(page=7, start=0, end=len(TEXT))]}))
    await indexer.work()
    await tenant.assert_holds(kb, {"d": TEXT})
    assert await tenant.database[kb.vector_collection].distinct("page_start") == [7]


async def test_a_text_of_many_megabytes_is_stored_and_found(tenant: Tenant) -> None:
    text = "Größe " * 500_000
    reference = await document_texts.put(tenant.database, DocumentKey(tenant.organization_id, "d"), text)
    assert await document_texts.put(tenant.database, DocumentKey(tenant.organization_id, "d"), text) == reference

    found = (await document_texts.find_all(tenant.database, tenant.organization_id, [reference])).get(reference)

    assert found is not None
    assert found.text == text
    assert (await document_texts.find_all(tenant.database, "another", [reference])).get(reference) is None


async def test_events_of_one_document_at_once_are_all_applied(tenant: Tenant, indexer: Replica, rival: Replica) -> None:
    kb = await tenant.create_kb("a")
    await asyncio.gather(
        indexer.publish(tenant.ocr("d", TEXT, revision=1, tags=["z"])),
        rival.publish(tenant.tagged("d", "a", revision=2)),
        indexer.publish(tenant.described("d", {"n": 1}, revision=3)),
        rival.publish(tenant.ocr("d", text_of(9), revision=0)),
    )
    await indexer.work()
    await rival.work()

    await tenant.assert_holds(kb, {"d": TEXT})
    document = await documents.find(tenant.database, DocumentKey(tenant.organization_id, "d"))
    assert document is not None
    assert (document.tag_ids, document.metadata_values) == (("a",), {"n": 1})
    await tenant.assert_settled()


async def test_an_event_that_is_applied_between_the_read_and_the_write_of_another_one_is_kept(
    tenant: Tenant, indexer: Replica, rival: Replica
) -> None:
    await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT, revision=1, tags=["z"]))
    others = [tenant.tagged("d", "a", revision=2)]

    async def apply_another() -> None:
        while others:
            await rival.publish(others.pop())

    async with failpoints.during("fan_out.after_text", apply_another):
        await indexer.publish(tenant.described("d", {"n": 1}, revision=3))

    document = await documents.find(tenant.database, DocumentKey(tenant.organization_id, "d"))
    assert document is not None
    assert (document.tag_ids, document.metadata_values) == (("a",), {"n": 1})


async def test_a_knowledge_base_retagged_while_an_event_is_fanned_out_misses_nothing(
    tenant: Tenant, indexer: Replica, rival: Replica
) -> None:
    kb = await tenant.create_kb("z")

    async def retag() -> None:
        await rival.retag_kb(kb, "a")
        await rival.scan()

    async with failpoints.during("fan_out.after_projection", retag):
        await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()
    await rival.work()

    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()


async def test_tags_seen_on_a_document_register_themselves_and_deleted_ones_stay_deleted(
    tenant: Tenant, indexer: Replica
) -> None:
    organization_id = tenant.organization_id
    await indexer.publish(
        tenant.ocr("d", TEXT, tags=["seen", "gone"]),
        TagDeleted(organization_id=organization_id, tag_id="gone", revision=5),
        TagUpserted(organization_id=organization_id, tag_id="gone", revision=4, name="late"),
        tenant.tagged("d", "gone", revision=2),
    )

    assert await tags.find_unknown(tenant.database, organization_id, tag_ids={"seen", "gone", "unheard-of"}) == {
        "gone",
        "unheard-of",
    }
    document = await documents.find(tenant.database, DocumentKey(organization_id, "d"))
    assert document is not None
    assert document.tag_ids == ("gone",), "a deleted tag changes no document"

    await indexer.publish(TagUpserted(organization_id=organization_id, tag_id="gone", revision=6, name="back"))
    assert await tags.find_unknown(tenant.database, organization_id, tag_ids={"gone"}) == set()


async def test_each_query_of_a_whole_life_names_the_organization(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    kb, other_kb = await tenant.create_kb("a"), await tenant.create_kb("b")
    command_log.clear()

    await indexer.publish(tenant.tagged("d", "a", revision=1))
    await indexer.work()
    await indexer.publish(tenant.ocr("d", TEXT, revision=2))
    await indexer.work()
    await indexer.publish(tenant.ocr("d", text_of(2, 3, 4), revision=3), tenant.ocr("e", TEXT))
    await indexer.work()
    await indexer.publish(tenant.described("d", {"n": 1}, revision=4), tenant.tagged("d", "b", revision=5))
    await indexer.work()
    await indexer.retag_kb(kb, "a", "b")
    await indexer.scan()
    await indexer.publish(tenant.deleted("d", revision=6))
    await indexer.work()
    await indexer.full_pass()
    await indexer.begin_deletion_of_kb(other_kb)
    await indexer.finish_deletion_of_kb(other_kb)

    assert len(command_log.commands) > 200
    careless = {name for command in command_log.commands for name in queries_without_organization(command)}
    assert careless == set()


async def test_an_organization_named_in_a_query_is_the_one_the_work_is_for(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    await tenant.create_kb("a")
    command_log.clear()
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.handle_commands()

    named = {value for command in command_log.commands for value in organizations_named(command)}
    assert named == {tenant.organization_id}
