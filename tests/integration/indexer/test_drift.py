"""Every kind of drift is found, repaired and not found again; nothing that is right, or in progress, is touched."""

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from pymongo.errors import OperationFailure

from kb_reconciler import passes, reconcile, slices
from kb_reconciler import state as reconciler_state
from kb_reconciler.drift import comparisons
from kb_reconciler.drift.comparisons import find_chunk_drift, find_membership_drift
from kb_reconciler.drift.orphan_vectors import delete_orphans
from kb_reconciler.drift.registry import DEPLOYMENT_DRIFT, LEFTOVER_DRIFT, NAMES
from kb_reconciler.drift.search_index import SEARCH_INDEX
from kb_reconciler.drift.unreferenced_text import UNREFERENCED_TEXT
from kb_reconciler.drift.wrong_totals import WRONG_TOTALS
from kb_reconciler.leftovers import delete_leftovers
from kb_reconciler.passes import PassReport
from kb_reconciler.slices import Slice, split
from kb_reconciler.state import LeadershipLost
from kb_shared import failpoints
from kb_shared.membership import Action
from kb_shared.membership.drift import find_drift
from kb_shared.mongo import chunk_indexes, document_index, documents, index_jobs, kb_slots, knowledge_bases
from kb_shared.mongo.chunks_digest import build_chunk_expression, chunks_digest
from kb_shared.mongo.database import Database
from kb_shared.mongo.documents import Document, MetadataFacet, TagsFacet, TextFacet
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from tests.integration.indexer.planted_drift import (
    PLANTS,
    TEXTS,
    copy_chunks,
    lose,
    plant_incomplete,
    plant_wrong_totals,
    set_row,
)
from tests.integration.indexer.support import CommandLog, Replica, Tenant, paragraph
from tests.waiting import until

TESTED_ELSEWHERE = {
    *(kind.name for kind in LEFTOVER_DRIFT),
    # tests/integration/reconciler
    *(kind.name for kind in DEPLOYMENT_DRIFT),
    SEARCH_INDEX.name,
    UNREFERENCED_TEXT,
}


def test_every_kind_of_drift_is_planted() -> None:
    assert PLANTS.keys() | TESTED_ELSEWHERE == set(NAMES)


@pytest.mark.parametrize("kind", PLANTS)
async def test_drift_is_found_repaired_and_not_found_again(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase, kind: str
) -> None:
    assert (await indexer.reconcile(filled)).found == Counter()
    spus = await tenant.spus()
    wanted = await PLANTS[kind](tenant, indexer, filled)

    first = await indexer.reconcile(filled)
    await indexer.work()
    second = await indexer.reconcile(filled)

    assert first.found == first.repaired == Counter({kind: 1})
    assert (second.found, second.complete) == (Counter(), True)
    await tenant.assert_holds(filled, wanted)
    await tenant.assert_settled()
    # Only a text that was never embedded costs anything.
    assert await tenant.spus() - spus == (1 if kind in ("missing", "stale_text") else 0)


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param({"chunk_index": 7}, id="another number"),
        pytest.param({"until": 1, "retired_at": datetime(2040, 1, 1, tzinfo=UTC)}, id="retired"),
    ],
)
async def test_a_chunk_that_changed_makes_its_document_incomplete(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase, harm: dict[str, Any]
) -> None:
    chunk = {"document_id": "d1", "chunk_index": 1}
    await tenant.database[filled.vector_collection].update_one(chunk, {"$set": harm})

    assert (await indexer.reconcile(filled)).found == Counter(incomplete=1)
    await indexer.work()
    await tenant.assert_holds(filled, TEXTS)


async def test_an_exchanged_chunk_is_found_although_the_number_of_chunks_is_right(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    collection = tenant.database[filled.vector_collection]
    row = await collection.find_one({"document_id": "d1", "chunk_index": 1})
    assert row is not None
    await collection.delete_one({"_id": row["_id"]})
    await collection.insert_one(row | {"_id": "d1:ffffffffffffffffffffffff:0"})

    assert (await indexer.reconcile(filled)).found == Counter(incomplete=1)
    await indexer.work()
    assert (await indexer.reconcile(filled)).found == Counter()


async def test_a_row_from_before_the_digest_is_compared_by_the_number_of_chunks(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    mine = {"organization_id": tenant.organization_id}
    await tenant.database[document_index.NAME].update_many(mine, {"$unset": {"chunks_digest": ""}})
    assert (await indexer.reconcile(filled)).found == Counter()

    await tenant.database[filled.vector_collection].delete_one({"document_id": "d2", "chunk_index": 0})
    assert (await indexer.reconcile(filled)).found == Counter(incomplete=1)


async def test_documents_from_before_the_digest_are_compared_once_and_then_have_one(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    collection = tenant.database[documents.NAME]
    await collection.update_many(
        {"organization_id": tenant.organization_id}, {"$unset": {"chunk_metadata_digest": "", "digested_version": ""}}
    )
    part = Slice({})
    assert len(await find_membership_drift(tenant.database, filled, part)) == len(TEXTS)

    assert (await indexer.reconcile(filled)).found == Counter()

    assert await find_membership_drift(tenant.database, filled, part) == {}


async def test_a_document_that_an_older_replica_changed_is_compared_although_its_digest_is_unchanged(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    """A replica of an older version writes the document and leaves the digest as it was."""
    await tenant.database[documents.NAME].update_one(
        {"_id": f"{tenant.organization_id}/d1"},
        {"$set": {"document_name": "renamed.pdf"}, "$inc": {"projection_version": 1}},
    )
    assert (await indexer.reconcile(filled)).found == Counter(stale_snapshot=1)


_rng = random.Random(4)  # not for security


def random_document(tenant: Tenant, number: int) -> Document:
    revision = _rng.randint(1, 2)
    text = TextFacet(revision, "x", _rng.choice(["t1", "t2"]), _rng.choice("mn"), datetime(2026, 1, 31, tzinfo=UTC))
    return Document(
        tenant.organization_id,
        f"d{number:03}",
        text=_rng.choice([text, text, text, None]),
        tags=_rng.choice([None, TagsFacet(1, "x", ()), TagsFacet(1, "x", ("a", "b")), TagsFacet(1, "x", ("a",))]),
        metadata=_rng.choice([None, MetadataFacet(1, "x", {"n": _rng.randint(1, 2)})]),
    )


async def test_the_comparison_on_the_server_finds_what_the_decision_finds(tenant: Tenant, indexer: Replica) -> None:
    """Random documents and rows, each either equal to another random document or absent."""
    kb = await tenant.create_kb("a")
    database = tenant.database
    now = datetime.now(UTC)
    known = [random_document(tenant, number) for number in range(300)]
    applied = documents.AppliedEvent("e", "t", 1, "", now)
    await documents.write_all(database, [documents.DocumentChange(document, applied) for document in known])
    for number in range(0, 320, 2):
        shown = random_document(tenant, number)
        if shown.text is not None:
            await database[document_index.NAME].insert_one(
                {
                    "_id": document_index.row_id(kb_id=kb.kb_id, document_id=shown.document_id),
                    "organization_id": tenant.organization_id,
                    "kb_id": kb.kb_id,
                    "document_id": shown.document_id,
                    "version": 1,
                    "chunk_count": 0,
                    "content_digest": shown.text.text_id,
                    "text_revision": shown.text.revision,
                    "snapshot_digest": documents.chunk_metadata_digest(shown),
                    "config_hash": _rng.choice([kb.config_hash, kb.config_hash, "another"]),
                    "document_name": shown.text.name,
                }
            )
    ids = [f"d{number:03}" for number in range(320)]

    decided = await find_drift(database, kb, ids)
    found = await find_membership_drift(database, kb, Slice({}))

    kinds_of = {
        Action.REMOVE: {"stale"},
        Action.INDEX: {"missing", "wrong_config", "stale_text"},
        Action.WAIT: {"missing"},
        Action.REFRESH: {"stale_text", "stale_snapshot"},
        Action.ACKNOWLEDGE: {"stale_text"},
    }
    assert found.keys() == decided.keys()
    assert {
        document_id: kind for document_id, kind in found.items() if kind not in kinds_of[decided[document_id]]
    } == {}
    assert set(found.values()) == {"missing", "stale", "wrong_config", "stale_text", "stale_snapshot"}


async def test_the_server_computes_the_digest_that_the_swap_stores(own_database: Database) -> None:
    numbers = {f"{name}:{n:024x}:{n}": n for n, name in enumerate(["d", "dök", "文書", "x" * 512, "🗎", "a/b c"])}
    await own_database["chunks"].insert_many([{"_id": i, "chunk_index": n} for i, n in numbers.items()])

    stages = [{"$group": {"_id": None, "digest": {"$sum": build_chunk_expression()}}}]
    [row] = await (await own_database["chunks"].aggregate(stages)).to_list()

    assert row["digest"] == chunks_digest(numbers)


async def test_chunks_are_compared_without_reading_one(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase, command_log: CommandLog
) -> None:
    collection = tenant.database[filled.vector_collection]
    union = comparisons._union_chunks(filled, Slice({"$gt": "d1", "$lte": "d4"}))
    explained = await tenant.database.command(
        "explain",
        {"aggregate": collection.name, "pipeline": union["$unionWith"]["pipeline"], "cursor": {}},
        verbosity="executionStats",
    )
    stats = (
        explained["executionStats"]
        if "executionStats" in explained
        else explained["stages"][0]["$cursor"]["executionStats"]
    )
    assert (stats["totalDocsExamined"], stats["totalKeysExamined"] > 0) == (0, True)


async def test_slices_contain_every_document_once(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lose(indexer, tenant.ocr("zz", paragraph(9)))
    await lose(indexer, tenant.deleted("d3", revision=9))
    await copy_chunks(tenant, filled, to="aa")
    await copy_chunks(tenant, filled, to="zzz")

    for size in (1, 2, 3, 100):
        monkeypatch.setattr(slices, "SLICE_SIZE", size)
        parts = [part async for part in split(tenant.database, filled)]
        membership = [await find_membership_drift(tenant.database, filled, part) for part in parts]
        chunks = [await find_chunk_drift(tenant.database, filled, part) for part in parts]

        assert sorted(item for found in membership for item in found.items()) == [("d3", "stale"), ("zz", "missing")]
        assert sorted(item for found in chunks for item in found.items()) == [
            ("aa", "orphan_vectors"),
            ("zzz", "orphan_vectors"),
        ]


async def test_a_knowledge_base_is_not_mixed_up_with_one_whose_id_continues_its_own(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    """Jobs are looked up by the range of their ids."""
    await lose(indexer, tenant.ocr("new", paragraph(9)))
    await tenant.database[index_jobs.NAME].insert_one(
        {
            "_id": f"{filled.kb_id}0/new",
            "organization_id": tenant.organization_id,
            "document_id": "new",
            "state": "pending",
        }
    )
    for part in (Slice({}), Slice({"$gt": "d5"}), Slice({"$in": ["new"]})):
        assert await find_membership_drift(tenant.database, filled, part) == {"new": "missing"}
    await tenant.database[index_jobs.NAME].delete_many({})


async def test_a_document_with_a_job_has_no_drift(tenant: Tenant, indexer: Replica, filled: KnowledgeBase) -> None:
    await lose(indexer, tenant.ocr("new", paragraph(9)))
    assert (await indexer.reconcile(filled)).found == Counter(missing=1)
    assert (await indexer.reconcile(filled)).found == Counter()


async def test_a_document_that_changed_within_the_grace_period_is_left_alone(
    own_tenant: Tenant, own_indexer: Replica, own_filled: KnowledgeBase
) -> None:
    await lose(own_indexer, own_tenant.ocr("new", paragraph(9)))
    await lose(own_indexer, own_tenant.deleted("d1", revision=9))
    patient = passes.Passes(own_indexer.passes.tools, grace=timedelta(minutes=1))
    assert (await patient.full(leading)).total.found == Counter()

    await own_tenant.database[documents.NAME].update_many(
        {}, {"$set": {"changed_at": datetime(2026, 1, 1, tzinfo=UTC)}}
    )
    assert (await patient.full(leading)).total.found == Counter(missing=1, stale=1)


async def leading() -> None:
    pass


async def test_a_knowledge_base_that_is_being_scanned_is_left_alone_and_compared_afterwards(
    own_tenant: Tenant, own_indexer: Replica, own_filled: KnowledgeBase
) -> None:
    await own_indexer.retag_kb(own_filled, "b")

    report = await own_indexer.full_pass()

    assert (report.total.found, report.unfinished_kb_ids) == (Counter(), {own_filled.kb_id})
    await own_indexer.scan()
    await own_indexer.work()
    await own_tenant.assert_holds(own_filled, {})


# The brake.


@pytest.fixture
async def eight(tenant: Tenant, indexer: Replica, monkeypatch: pytest.MonkeyPatch) -> KnowledgeBase:
    """A KB of eight documents, of which a pass removes up to three, or up to half of them."""
    monkeypatch.setattr(reconcile, "MAX_REMOVED", 3)
    monkeypatch.setattr(reconcile, "MAX_REMOVED_SHARE", 0.5)
    kb = await tenant.create_kb("a")
    await indexer.publish(*(tenant.ocr(f"m{n}", paragraph(n)) for n in range(8)))
    await indexer.work()
    return await knowledge_bases.get(tenant.database, kb.key)


async def lose_documents(tenant: Tenant, number: int) -> None:
    """Lose rows of documents, as a wrong restore does."""
    await tenant.database[documents.NAME].delete_many(
        {"organization_id": tenant.organization_id, "document_id": {"$lt": f"m{number}"}}
    )


def test_the_brake_allows_20_documents_or_a_tenth_of_a_knowledge_base() -> None:
    assert (reconcile.MAX_REMOVED, reconcile.MAX_REMOVED_SHARE) == (20, 0.1)


@pytest.mark.parametrize(("gone", "share", "stops"), [(3, 0.0, False), (4, 0.5, False), (5, 0.5, True)])
async def test_more_removals_than_a_number_and_a_share_of_a_knowledge_base_are_not_made(
    tenant: Tenant,
    indexer: Replica,
    eight: KnowledgeBase,
    monkeypatch: pytest.MonkeyPatch,
    *,
    gone: int,
    share: float,
    stops: bool,
) -> None:
    monkeypatch.setattr(reconcile, "MAX_REMOVED_SHARE", share)
    await lose_documents(tenant, gone)

    report = await indexer.reconcile(eight)
    await indexer.work()

    assert report.found == Counter(stale=gone)
    assert (report.stopped, report.repaired) == (
        (Counter(stale=gone), Counter()) if stops else (Counter(), Counter(stale=gone))
    )
    assert await document_index.count(tenant.database, eight.key) == (8 if stops else 8 - gone)


async def test_the_brake_counts_documents_and_orphans_together_and_lets_other_repairs_pass(
    tenant: Tenant, indexer: Replica, eight: KnowledgeBase
) -> None:
    await lose_documents(tenant, 3)
    for number in range(2):
        await copy_chunks(tenant, eight, of="m5", to=f"ghost{number}")
    await tenant.database[eight.vector_collection].delete_many({"document_id": "m6"})

    report = await indexer.reconcile(eight)

    assert report.stopped == Counter(stale=3, orphan_vectors=2)
    assert report.repaired == Counter(incomplete=1)
    assert await tenant.database[eight.vector_collection].count_documents({"document_id": "ghost0"}) == 1


# Orphans, and what happens at the same time.


async def test_chunks_of_a_document_that_was_indexed_meanwhile_are_no_orphans(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    assert await delete_orphans(tenant.database, filled, "d1") is False
    await tenant.assert_holds(filled, TEXTS)


async def test_the_removal_of_orphans_and_a_swap_of_the_document_do_not_pass_each_other(
    tenant: Tenant, indexer: Replica, rival: Replica, rival_command_log: CommandLog, filled: KnowledgeBase
) -> None:
    """The swap reads no chunks of a document without a row; the removal must not delete those that it writes.

    The orphans that the swap did not see are superfluous then, which another pass finds.
    """
    await copy_chunks(tenant, filled, to="ghost")
    await indexer.publish(tenant.ocr("ghost", paragraph(50)))
    removals: list[asyncio.Task[bool]] = []

    async def remove_meanwhile() -> None:
        if not removals:
            removals.append(asyncio.create_task(delete_orphans(rival.database, filled, "ghost")))
            await until(lambda: removals[0].done() or rival_command_log.held_up(), every_s=0.005)

    async with failpoints.during("swap.before_commit", remove_meanwhile):
        await indexer.work()
    assert [await removal for removal in removals] == [False], "the document has a row by then"
    assert (await indexer.reconcile(filled)).found == Counter(incomplete=1)
    await indexer.work()
    await tenant.assert_holds(filled, TEXTS | {"ghost": paragraph(50)})


async def test_counters_that_a_swap_has_written_since_they_were_read_are_read_again(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = kb_slots.row_id(kb_id=filled.kb_id, document_id="d1")
    await tenant.database[kb_slots.NAME].update_one({"_id": slot}, {"$inc": {"chunks": 5}})
    read_counters = kb_slots.read_counters

    async def swap_after_reading(*args: Any) -> Any:
        counters = await read_counters(*args)
        monkeypatch.setattr(kb_slots, "read_counters", read_counters)
        await indexer.publish(tenant.ocr("d1", paragraph(70), revision=5))
        await indexer.work()
        return counters

    monkeypatch.setattr(kb_slots, "read_counters", swap_after_reading)
    assert await WRONG_TOTALS.repair(tenant.database, filled)
    await tenant.assert_holds(filled, TEXTS | {"d1": paragraph(70)})


async def test_a_kind_that_can_not_be_looked_for_does_not_keep_others_from_being_repaired(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a deployment without Atlas search."""
    await plant_incomplete(tenant, indexer, filled)
    await plant_wrong_totals(tenant, indexer, filled)

    async def fail(*_: object) -> None:
        raise OperationFailure("no search here", 31082)

    monkeypatch.setattr(chunk_indexes, "read_state", fail)
    assert (await indexer.reconcile(filled)).repaired == Counter(incomplete=1, wrong_totals=1)


# Incremental passes.


async def incremental(indexer: Replica) -> PassReport:
    """Make an incremental pass after what the last one has compared, and store what it covered."""
    state = await reconciler_state.begin(indexer.database)
    report = await indexer.passes.incremental(state, leading)
    await reconciler_state.save(
        indexer.database, state, compared_until=datetime.now(UTC), unfinished=report.stored_unfinished
    )
    return report


async def age_documents(tenant: Tenant) -> None:
    """Let the documents have changed long ago."""
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    await tenant.database[documents.NAME].update_many({}, {"$set": {"changed_at": long_ago}})


async def test_an_incremental_pass_finds_drift_of_documents_that_changed_in_every_knowledge_base(
    own_tenant: Tenant, own_indexer: Replica, own_filled: KnowledgeBase
) -> None:
    other = await own_tenant.create_kb("b")
    await incremental(own_indexer)
    # No KB that has the document indexed shares a tag with it any more.
    await lose(own_indexer, own_tenant.tagged("d1", "b", revision=9))

    assert (await incremental(own_indexer)).total.found == Counter(stale=1, missing=1)
    await own_indexer.work()
    assert (await incremental(own_indexer)).total.found == Counter()
    await own_tenant.assert_holds(other, {"d1": TEXTS["d1"]})
    assert own_filled.kb_id != other.kb_id


async def test_an_incremental_pass_looks_at_no_document_that_did_not_change(
    own_tenant: Tenant, own_indexer: Replica, own_filled: KnowledgeBase
) -> None:
    await age_documents(own_tenant)
    await set_row(own_tenant, own_filled, config_hash="another")
    assert (await incremental(own_indexer)).total.found == Counter()


async def test_drift_that_exceeds_the_backlog_is_left_for_the_next_pass(
    own_tenant: Tenant, own_indexer: Replica, own_filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "BACKLOG_LIMIT", 3)
    await own_tenant.database[document_index.NAME].update_many({}, {"$set": {"config_hash": "another"}})
    await age_documents(own_tenant)

    first = await own_indexer.full_pass()
    assert (first.total.repaired, first.unfinished_kb_ids) == (Counter(wrong_config=3), {own_filled.kb_id})
    state = await reconciler_state.begin(own_tenant.database)
    await reconciler_state.save(own_tenant.database, state, unfinished=first.stored_unfinished)
    await own_indexer.work()

    second = await incremental(own_indexer)
    assert (second.total.repaired, second.unfinished_kb_ids) == (Counter(wrong_config=2), {own_filled.kb_id})
    await own_indexer.work()
    third = await incremental(own_indexer)
    assert (third.total.found, third.unfinished_kb_ids) == (Counter(), set())


@pytest.mark.parametrize("waiting", [True, False])
async def test_a_pass_pauses_after_each_slice_while_documents_wait_to_be_indexed(
    own_tenant: Tenant,
    own_indexer: Replica,
    own_filled: KnowledgeBase,
    waiting: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(passes, "sleep", pause)
    monkeypatch.setattr(slices, "SLICE_SIZE", 2)
    if waiting:
        await own_indexer.publish(own_tenant.ocr("new", paragraph(99)))
    await own_indexer.full_pass()
    assert len(pauses) in (range(3, 5) if waiting else (0,))
    assert all(0 < seconds <= 5 for seconds in pauses)


async def test_orphans_are_deleted_although_the_knowledge_base_has_enough_jobs(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "BACKLOG_LIMIT", 0)
    await copy_chunks(tenant, filled, to="ghost")
    await set_row(tenant, filled, config_hash="another")
    report = await indexer.reconcile(filled)
    assert (report.repaired, report.complete) == (Counter(orphan_vectors=1), False)


async def test_the_metric_of_drift_shows_what_the_last_pass_found_that_looked_for_it(
    own_tenant: Tenant, own_indexer: Replica, own_filled: KnowledgeBase
) -> None:
    def shown(kind: str) -> float | None:
        return REGISTRY.get_sample_value("kb_reconciler_drift", {"kind": kind})

    await plant_incomplete(own_tenant, own_indexer, own_filled)
    found = await own_indexer.full_pass()
    assert (shown("incomplete"), found.unfinished_kb_ids) == (1, {own_filled.kb_id})
    await incremental(own_indexer)
    assert shown("incomplete") == 1, "an incremental pass compares no chunks"
    await own_indexer.work()
    state = await reconciler_state.begin(own_tenant.database)
    await reconciler_state.save(own_tenant.database, state, unfinished=found.stored_unfinished)
    await incremental(own_indexer)
    assert shown("incomplete") == 0


# Leftovers of KBs that do not exist.


async def plant_zombie(tenant: Tenant, kb: KnowledgeBase) -> None:
    """Lose the row of a KB, as a restore of only some collections does."""
    await tenant.database[knowledge_bases.NAME].delete_one({"_id": kb.kb_id})


async def test_leftovers_of_a_knowledge_base_are_deleted_after_the_grace_period_and_others_stay(
    own_tenant: Tenant, own_indexer: Replica, own_filled: KnowledgeBase
) -> None:
    kept = await own_tenant.create_kb("a")
    await lose(own_indexer, own_tenant.ocr("d1", paragraph(9), revision=9))
    assert (await own_indexer.full_pass()).total.repaired == Counter(stale_text=1, missing=len(TEXTS))
    await plant_zombie(own_tenant, own_filled)
    database, now = own_tenant.database, datetime.now(UTC)

    first = await delete_leftovers(database, first_found={}, now=now, grace=timedelta(hours=1))
    soon = await delete_leftovers(
        database, first_found=first.first_found, now=now + timedelta(minutes=59), grace=timedelta(hours=1)
    )
    assert first.found == soon.found == Counter(zombie_collection=1, zombie_rows=1)
    assert first.deleted == soon.deleted == Counter()
    assert own_filled.vector_collection in await database.list_collection_names()

    later = await delete_leftovers(
        database, first_found=soon.first_found, now=now + timedelta(hours=1), grace=timedelta(hours=1)
    )
    assert (later.found, later.deleted, later.first_found) == (soon.found, soon.found, {})
    await own_tenant.assert_gone(own_filled)
    assert (await delete_leftovers(database, first_found={}, now=now, grace=timedelta(0))).found == Counter()
    await own_indexer.work()
    await own_tenant.assert_holds(kept, TEXTS | {"d1": paragraph(9)})


async def test_leftovers_that_are_explained_meanwhile_are_kept(
    own_tenant: Tenant, own_indexer: Replica, own_filled: KnowledgeBase
) -> None:
    """A restore restores the KB last."""
    row = await own_tenant.database[knowledge_bases.NAME].find_one({"_id": own_filled.kb_id})
    assert row is not None
    await plant_zombie(own_tenant, own_filled)
    now = datetime.now(UTC)
    first = await delete_leftovers(own_tenant.database, first_found={}, now=now, grace=timedelta(hours=1))
    await own_tenant.database[knowledge_bases.NAME].insert_one(row)

    later = await delete_leftovers(
        own_tenant.database, first_found=first.first_found, now=now + timedelta(days=1), grace=timedelta(hours=1)
    )

    assert (later.found, later.first_found) == (Counter(), {})
    await own_tenant.assert_holds(own_filled, TEXTS)


async def test_a_full_pass_remembers_leftovers_for_the_next(
    own_tenant: Tenant, own_indexer: Replica, own_filled: KnowledgeBase
) -> None:
    await plant_zombie(own_tenant, own_filled)
    for grace, gone in ((timedelta(hours=12), False), (timedelta(0), True)):
        state = await reconciler_state.begin(own_tenant.database)
        await reconciler_state.save(own_tenant.database, state, full_pass_due_at=datetime.now(UTC))
        made = passes.Passes(own_indexer.passes.tools, grace=timedelta(0), leftover_grace=grace)
        await made.make_due_pass(full_interval=timedelta(days=1), still_leader=leading)
        remembered = (await reconciler_state.begin(own_tenant.database)).leftovers
        assert (remembered == {}) is gone
    await own_tenant.assert_gone(own_filled)


# Leaders.


async def test_a_leader_that_was_replaced_stores_nothing_and_ends_its_pass(own_indexer: Replica) -> None:
    old = await reconciler_state.begin(own_indexer.database)
    new = await reconciler_state.begin(own_indexer.database)
    assert new.token > old.token
    with pytest.raises(LeadershipLost):
        await reconciler_state.save(own_indexer.database, old, unfinished={"chunks": ["x"]})
    await reconciler_state.save(own_indexer.database, new, unfinished={"chunks": ["y"]})
    assert (await reconciler_state.begin(own_indexer.database)).unfinished == {"chunks": ["y"]}


async def test_a_pass_ends_when_its_replica_is_no_longer_the_leader(
    own_indexer: Replica, own_filled: KnowledgeBase
) -> None:
    async def lost() -> None:
        raise LeadershipLost

    with pytest.raises(LeadershipLost):
        await own_indexer.passes.full(lost)


async def test_a_full_pass_is_made_once_in_an_interval_and_first_at_a_random_time(
    own_indexer: Replica, own_filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    full: list[datetime] = []
    make_full = passes.Passes.full

    async def note_full(*args: Any) -> PassReport:
        full.append(datetime.now(UTC))
        return await make_full(*args)

    monkeypatch.setattr(passes.Passes, "full", note_full)

    async def make() -> None:
        await own_indexer.passes.make_due_pass(full_interval=timedelta(days=1), still_leader=leading)

    await make()
    state = await reconciler_state.begin(own_indexer.database)
    assert full == []
    assert state.full_pass_due_at is not None
    assert timedelta(0) <= state.full_pass_due_at - datetime.now(UTC) <= timedelta(days=1)
    await reconciler_state.save(own_indexer.database, state, full_pass_due_at=datetime.now(UTC))
    await make()
    await make()
    assert len(full) == 1
