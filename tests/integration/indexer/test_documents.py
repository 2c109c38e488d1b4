"""What becomes of documents in their KBs as events arrive."""

import asyncio
import random
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest

from kb_contracts.documents import DocumentEvent
from kb_contracts.metadata import DateValue
from kb_contracts.outcomes import DocumentIndexed, DocumentRemoved
from kb_local.python_server import ModelServerProcess
from kb_shared.mongo import document_index, documents, index_queries, outbox
from kb_shared.mongo.database import Row
from kb_shared.mongo.index_jobs import IndexJobState
from kb_shared.mongo.keys import DocumentKey, MembershipKey
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.integration.indexer.support import (
    UPLOADED,
    CommandLog,
    Replica,
    Tenant,
    decoded,
    replica,
    text_of,
)
from tests.waiting import until

TEXT, CHANGED = text_of(1, 2, 3, 4), text_of(0, 1, 2, 4)


async def rows_of(tenant: Tenant, kb: KnowledgeBase, document_id: str = "d") -> dict[str, Row]:
    """The stored chunks by id, vectors left out."""
    query = {"document_id": document_id}
    return {row["_id"]: row async for row in tenant.database[kb.vector_collection].find(query, {"embedding": 0})}


async def list_announcements(tenant: Tenant, kb: KnowledgeBase) -> list[Any]:
    """Return the messages about documents of a KB in the outbox, in the order of sending."""
    rows = tenant.database[outbox.NAME].find({"key": f"{tenant.organization_id}/{kb.kb_id}"})
    values = [row["value"] async for row in rows.sort([("ordering", 1), ("seq", 1), ("_id", 1)])]
    return decoded(values, DocumentIndexed, DocumentRemoved)


async def test_a_document_is_in_each_knowledge_base_that_shares_a_tag_with_it(tenant: Tenant, indexer: Replica) -> None:
    a, b, both, neither = [await tenant.create_kb(*tags) for tags in (["a"], ["b"], ["a", "b"], ["c"])]

    await indexer.publish(tenant.ocr("d", TEXT, tags=["a"]), tenant.ocr("e", CHANGED, tags=["a", "b"]))
    await indexer.work()

    await tenant.assert_holds(a, {"d": TEXT, "e": CHANGED})
    await tenant.assert_holds(b, {"e": CHANGED})
    await tenant.assert_holds(both, {"d": TEXT, "e": CHANGED})
    await tenant.assert_holds(neither, {})
    await tenant.assert_settled()
    assert await tenant.spus() == 5, "the texts share three of their four paragraphs, and all knowledge bases a model"


async def test_w9_a_document_moves_between_knowledge_bases_with_its_tags_and_pays_nothing_for_it(
    tenant: Tenant, indexer: Replica
) -> None:
    a, b = await tenant.create_kb("a"), await tenant.create_kb("b")
    await indexer.publish(tenant.ocr("d", TEXT, tags=["a"]))
    await indexer.work()
    paid = await tenant.spus()
    in_a = await document_index.measure_recent(tenant.database, a.key)
    assert in_a.cache_hit_ratio == 0
    assert in_a.duration_s is not None

    await indexer.publish(tenant.tagged("d", "b", revision=2))
    await indexer.work()

    await tenant.assert_holds(a, {})
    await tenant.assert_holds(b, {"d": TEXT})
    assert await tenant.spus() == paid
    assert (await document_index.measure_recent(tenant.database, b.key)).cache_hit_ratio == 1
    assert [type(message) for message in await list_announcements(tenant, a)] == [DocumentIndexed, DocumentRemoved]


async def test_a_deletion_removes_a_document_everywhere_with_its_retired_chunks(
    tenant: Tenant, indexer: Replica
) -> None:
    kbs = [await tenant.create_kb("a"), await tenant.create_kb("a", "b")]
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()
    await indexer.publish(tenant.ocr("d", CHANGED, revision=2))
    await indexer.work()
    assert any(row["until"] is not None for row in (await rows_of(tenant, kbs[0])).values())

    await indexer.publish(tenant.deleted("d", revision=3))
    await indexer.work()

    for kb in kbs:
        await tenant.assert_holds(kb, {})
    await tenant.assert_settled()


async def test_a_changed_text_keeps_the_chunks_it_kept_and_retires_the_others(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()
    before = await rows_of(tenant, kb)

    await indexer.publish(tenant.ocr("d", CHANGED, revision=2))
    await indexer.work()

    await tenant.assert_holds(kb, {"d": CHANGED})
    after = await rows_of(tenant, kb)
    assert before.keys() < after.keys()
    kept = [identity for identity in before if after[identity]["until"] is None]
    retired = [identity for identity in before if after[identity]["until"] is not None]
    assert len(kept) == 3
    assert {after[identity]["since"] for identity in kept} == {1}
    assert [(after[i]["since"], after[i]["until"], after[i]["chunk_text"]) for i in retired] == [
        (1, 1, before[retired[0]]["chunk_text"])
    ]
    assert [row["since"] for identity, row in after.items() if identity not in before] == [2]
    assert await tenant.spus() == 5


async def test_a_text_that_comes_back_is_the_same_chunks_again(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    for revision, text in enumerate([TEXT, CHANGED, TEXT], start=1):
        await indexer.publish(tenant.ocr("d", text, revision=revision))
        await indexer.work()

    await tenant.assert_holds(kb, {"d": TEXT})
    assert await tenant.spus() == 5


async def test_chunks_left_behind_where_no_document_is_do_not_keep_it_out(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()
    row_id = document_index.row_id(kb_id=kb.kb_id, document_id="d")
    await tenant.database[document_index.NAME].delete_one({"_id": row_id})
    await tenant.database.kb_slots.update_many(
        {"kb_id": kb.kb_id, "documents": 1}, {"$set": {"documents": 0, "chunks": 0}}
    )

    await indexer.publish(tenant.ocr("d", TEXT, revision=2))
    await indexer.work()

    await tenant.assert_holds(kb, {"d": TEXT})


async def test_c3_an_unchanged_text_with_a_new_revision_costs_no_embedding_and_no_write_to_its_chunks(
    tenant: Tenant, indexer: Replica, command_log: CommandLog
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()
    before, paid = await rows_of(tenant, kb), await tenant.spus()

    command_log.clear()
    await indexer.publish(tenant.ocr("d", TEXT, revision=2))

    assert indexer.producer.sent == [], "a document that is right needs no command"
    names = command_log.names()
    assert not any("embedding_cache" in name for name in names)
    written = [name for name in names if kb.vector_collection in name and not name.startswith(("find", "aggregate"))]
    assert written == []
    assert await rows_of(tenant, kb) == before
    assert await tenant.spus() == paid
    row = await document_index.find(tenant.database, MembershipKey(tenant.organization_id, kb.kb_id, "d"))
    assert row is not None
    assert row.text_revision == 2
    assert (await list_announcements(tenant, kb))[-1].revision == 2


async def test_a_new_revision_of_the_same_text_is_not_stored_once_another_text_is_indexed(
    tenant: Tenant, indexer: Replica, rival: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()
    acknowledge = document_index.acknowledge

    async def after_another_text_is_indexed(*args: Any) -> bool:
        await rival.publish(tenant.ocr("d", CHANGED, revision=3))
        await rival.work()
        return await acknowledge(*args)

    monkeypatch.setattr(document_index, "acknowledge", after_another_text_is_indexed)
    await indexer.publish(tenant.ocr("d", TEXT, revision=2))
    await indexer.work()

    row = await document_index.find(tenant.database, MembershipKey(tenant.organization_id, kb.kb_id, "d"))
    assert row is not None
    assert row.text_revision == 3
    assert [outcome.revision for outcome in await list_announcements(tenant, kb)] == [1, 3]
    await tenant.assert_holds(kb, {"d": CHANGED})
    await tenant.assert_settled()


async def test_many_unchanged_documents_at_once_cost_few_commands_together(
    tenant: Tenant, indexer: Replica, rival: Replica, rival_command_log: CommandLog
) -> None:
    await tenant.create_kb("a")
    document_ids = [f"d{n}" for n in range(21)]
    await indexer.publish(*(tenant.ocr(document_id, TEXT) for document_id in document_ids))
    await indexer.work()

    # To a replica that does not still watch when they are found. By the first it learns of the tag.
    first, *others = [tenant.ocr(document_id, TEXT, revision=2) for document_id in document_ids]
    await rival.publish(first)
    rival_command_log.clear()
    await rival.publish(first.model_copy(update={"revision": 3}))
    alone = len(rival_command_log.names())
    rival_command_log.clear()
    await asyncio.gather(*(rival.publish(event) for event in others))

    assert rival.producer.sent == []
    assert 0 < len(rival_command_log.names()) <= alone * len(others) / 4


async def test_an_unchanged_text_is_indexed_again_where_a_chunk_is_missing(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()
    await tenant.database[kb.vector_collection].delete_one({"document_id": "d"})

    await indexer.publish(tenant.ocr("d", TEXT, revision=2))
    await indexer.work()

    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()


async def test_changed_metadata_reach_every_chunk_without_an_embedding(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT, metadata={"pages": 4, "language": "en"}))
    await indexer.work()
    before = await rows_of(tenant, kb)
    paid = await tenant.spus()

    signed = DateValue.model_validate({"$date": UPLOADED})
    await indexer.publish(tenant.described("d", {"language": "de", "signed": signed}, revision=2))
    await indexer.work()

    after = await rows_of(tenant, kb)
    assert before.keys() == after.keys()
    for row in after.values():
        assert row["metadata_snapshot"] == {"language": "de", "signed": UPLOADED}
        assert row["metadata_pairs"] == ["language=s:de", f"signed=d:{int(UPLOADED.timestamp() * 1000)}"]
        assert row["since"] == 1
    assert await tenant.spus() == paid
    await tenant.assert_settled()


async def test_a_further_tag_reaches_the_chunks_of_a_document_that_stays_where_it_is(
    tenant: Tenant, indexer: Replica
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()

    await indexer.publish(tenant.tagged("d", "a", "x", revision=2))
    await indexer.work()

    assert {tuple(row["tag_ids"]) for row in (await rows_of(tenant, kb)).values()} == {("a", "x")}
    await tenant.assert_settled()


async def test_duplicates_and_late_events_change_nothing(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    late = [
        tenant.ocr("d", TEXT, revision=1),
        tenant.tagged("d", "x", revision=2),
        tenant.described("d", {"n": 1}, revision=2),
        tenant.deleted("d", revision=3),
    ]
    newest = tenant.ocr("d", CHANGED, revision=10, metadata={"n": 2})
    await indexer.publish(newest)
    await indexer.work()
    state = await documents.find(tenant.database, DocumentKey(tenant.organization_id, "d"))
    chunks = await rows_of(tenant, kb)

    await indexer.publish(newest, *late, newest)
    await indexer.work()

    assert await rows_of(tenant, kb) == chunks
    after = await documents.find(tenant.database, DocumentKey(tenant.organization_id, "d"))
    assert state is not None
    assert after is not None
    assert (after.text, after.tags, after.metadata) == (state.text, state.tags, state.metadata)
    await tenant.assert_holds(kb, {"d": CHANGED})
    await tenant.assert_settled()


async def test_tags_without_a_text_wait_for_it(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.tagged("d", "a", revision=1))
    await indexer.work()
    assert {key: job.state for key, job in (await tenant.jobs()).items()} == {
        (kb.kb_id, "d"): IndexJobState.WAITING_FOR_TEXT
    }
    await tenant.assert_holds(kb, {})

    await indexer.publish(tenant.tagged("d", "a", revision=1))
    assert indexer.producer.sent == [], "the event came twice, and the document waits already"

    await indexer.publish(tenant.ocr("d", TEXT, revision=0, tags=["z"]))
    await indexer.work()
    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()


async def test_a_document_whose_text_has_become_empty_is_indexed_with_no_chunks(
    tenant: Tenant, indexer: Replica
) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()

    await indexer.publish(tenant.ocr("d", "", revision=2))
    await indexer.work()

    await tenant.assert_holds(kb, {"d": ""})
    assert (await list_announcements(tenant, kb))[-1].chunk_count == 0
    await tenant.assert_settled()


async def test_chunks_that_were_lost_are_found_missing_and_stored_again_for_nothing(
    tenant: Tenant, indexer: Replica
) -> None:
    kb = await tenant.create_kb("a")
    event = tenant.ocr("d", TEXT)
    await indexer.publish(event)
    await indexer.work()
    paid = await tenant.spus()
    await tenant.database[kb.vector_collection].delete_one({"document_id": "d", "chunk_index": 1})

    await indexer.publish(tenant.described("d", {"n": 1}, revision=2))
    await indexer.work()

    await tenant.assert_holds(kb, {"d": TEXT})
    assert await tenant.spus() == paid


async def test_retired_chunks_are_deleted_once_their_successors_are_found(tenant: Tenant, indexer: Replica) -> None:
    kb = await tenant.create_kb("a")
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()
    await indexer.publish(tenant.ocr("d", CHANGED, revision=2))
    await indexer.work()

    async def only_live_ones() -> bool:
        return all(row["until"] is None for row in (await rows_of(tenant, kb)).values())

    await until(only_live_ones)
    await tenant.assert_holds(kb, {"d": CHANGED})


async def test_retired_chunks_stay_while_the_text_index_does_not_know_their_successors(
    tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a search by words alone would miss the document for as long as that index trails the other."""
    kb = await tenant.create_kb("a")
    known = index_queries.any_in_text_index
    asked, may_know = 0, False

    async def trailing(*args: Any) -> bool:
        nonlocal asked
        asked += 1
        return may_know and await known(*args)

    monkeypatch.setattr(index_queries, "any_in_text_index", trailing)
    await indexer.publish(tenant.ocr("d", TEXT))
    await indexer.work()
    await indexer.publish(tenant.ocr("d", CHANGED, revision=2))
    await indexer.work()
    await until(lambda: asked > 2, what="the index of words is asked")
    assert any(row["until"] is not None for row in (await rows_of(tenant, kb)).values())
    may_know = True

    async def only_live_ones() -> bool:
        return all(row["until"] is None for row in (await rows_of(tenant, kb)).values())

    await until(only_live_ones)


@pytest.mark.parametrize("workers", [2, 10])
async def test_first_indexings_of_one_document_at_once_leave_one_set_and_are_charged_once(
    tenant: Tenant, model_server: ModelServerProcess, expired_leases_replica: Replica, workers: int
) -> None:
    kb = await tenant.create_kb("a")
    await expired_leases_replica.publish(tenant.ocr("d", TEXT))
    command = expired_leases_replica.producer.sent_to("kb-index-requests")

    async def one() -> None:
        async with replica(tenant.database, model_server.api_base, lease=timedelta(0)) as other:
            other.producer.sent = list(command)
            await other.handle_commands()

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(one())
    await tenant.make_due()
    await expired_leases_replica.work()

    await tenant.assert_holds(kb, {"d": TEXT})
    await tenant.assert_settled()
    assert await tenant.spus() == 4
    assert len(await rows_of(tenant, kb)) == 4


async def test_twenty_orders_of_the_same_events_end_in_the_same_rows(tenant: Tenant, indexer: Replica) -> None:
    kbs = [await tenant.create_kb("a"), await tenant.create_kb("b")]
    orders = random.Random(7).sample(list(permutations(range(6))), 20)

    def events(document_id: str) -> list[DocumentEvent]:
        return [
            tenant.ocr(document_id, TEXT, revision=1, metadata={"n": 1}),
            tenant.deleted(document_id, revision=2),
            tenant.ocr(document_id, CHANGED, revision=3, tags=["b"]),
            tenant.tagged(document_id, "a", revision=4),
            tenant.described(document_id, {"n": 2}, revision=4),
            tenant.ocr(document_id, TEXT, revision=0, tags=["b"]),
        ]

    for n, order in enumerate(orders):
        for position in order:
            await indexer.publish(events(f"d{n}")[position])
            if n % 2:
                await indexer.work()
    await indexer.work()

    states = [await documents.find(tenant.database, DocumentKey(tenant.organization_id, f"d{n}")) for n in range(20)]
    assert [(s.tag_ids, s.metadata_values, s.deleted_revision) for s in states if s] == [(("a",), {"n": 2}, 2)] * 20
    await tenant.assert_holds(kbs[0], {f"d{n}": CHANGED for n in range(20)})
    await tenant.assert_holds(kbs[1], {})
    await tenant.assert_settled()
