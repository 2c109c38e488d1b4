"""Vectors that are lost or damaged are restored from the other place that has them, and only paid for if none does."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pytest
from bson.binary import Binary

from kb_reconciler import reconcile
from kb_reconciler import state as reconciler_state
from kb_reconciler.drift.vector_comparison import find_vector_drift
from kb_reconciler.drift.vector_soundness import is_sound
from kb_reconciler.slices import Slice
from kb_reconciler.state import ReconcilerState
from kb_shared.mongo import document_index, embedding_cache
from kb_shared.mongo.chunks_digest import build_vector_expression, hash_text, hash_vector, vectors_digest
from kb_shared.mongo.database import Database
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.mongo.vector import from_binary, to_binary
from tests.integration.indexer.planted_drift import TEXTS, forget_embeddings, set_row
from tests.integration.indexer.support import DIMENSIONS, Replica, Tenant

SECOND_CHUNK: Final = {"document_id": "d1", "chunk_index": 1}


def harmed(**numbers: float) -> Binary:
    vector = np.linspace(-1, 1, DIMENSIONS, dtype=np.float32)
    for place, number in numbers.items():
        vector[int(place.removeprefix("n"))] = number
    return to_binary(vector)


HARMS: Final[Mapping[str, Any]] = {
    "none": None,
    "doubles": [0.5] * DIMENSIONS,
    "short": to_binary(np.ones(DIMENSIONS - 1, dtype=np.float32)),
    "long": to_binary(np.ones(DIMENSIONS + 1, dtype=np.float32)),
    "bytes": Binary(bytes(harmed()), 0),
    "other type of numbers": Binary(b"\x03\x00" + bytes(harmed())[2:], 9),
    "zero": to_binary(np.zeros(DIMENSIONS, dtype=np.float32)),
    "not a number": harmed(n1=float("nan")),
    "infinite": harmed(n1=float("inf")),
    "of another text": harmed(),
}
ONLY_THE_DIGEST_TELLS: Final = {"bytes", "other type of numbers", "not a number", "infinite", "of another text"}


async def leading() -> None:
    """Return at once: there is no other replica."""


async def read_chunks(tenant: Tenant, kb: KnowledgeBase, document_id: str | None = None) -> list[dict[str, Any]]:
    query = {} if document_id is None else {"document_id": document_id}
    rows = await tenant.database[kb.vector_collection].find(query).sort("_id").to_list()
    return [{name: row[name] for name in ("_id", "chunk_hash", "chunk_text", "embedding")} for row in rows]


async def harm_vector(tenant: Tenant, kb: KnowledgeBase, harm: str) -> None:
    await tenant.database[kb.vector_collection].update_one(SECOND_CHUNK, {"$set": {"embedding": HARMS[harm]}})


async def test_a_damaged_vector_is_found_and_taken_from_the_cache(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    before, spus = await read_chunks(tenant, filled), await tenant.spus()
    for harm in HARMS:
        await harm_vector(tenant, filled, harm)
        assert (await indexer.reconcile(filled)).repaired == Counter(bad_vector=1), harm
        await indexer.work()
        assert await read_chunks(tenant, filled) == before, harm
    assert (await indexer.reconcile(filled)).found == Counter()
    assert await tenant.spus() == spus
    await tenant.assert_settled()


async def test_a_row_from_before_the_digest_shows_vectors_that_are_no_vectors(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    for harm in HARMS.keys() - ONLY_THE_DIGEST_TELLS:
        await set_row(tenant, filled, vectors_digest=None, vector_space=None)
        await harm_vector(tenant, filled, harm)
        assert (await indexer.reconcile(filled)).found == Counter(bad_vector=1), harm
        await indexer.work()
    await set_row(tenant, filled, vectors_digest=None, vector_space=None)
    for harm in ONLY_THE_DIGEST_TELLS:
        await harm_vector(tenant, filled, harm)
        assert (await indexer.reconcile(filled)).found == Counter(), harm


async def test_a_vector_that_is_damaged_in_the_cache_too_is_paid_for_once_more(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    before, spus = await read_chunks(tenant, filled), await tenant.spus()
    chunk = await tenant.database[filled.vector_collection].find_one(SECOND_CHUNK)
    assert chunk is not None
    cached = {"scope": tenant.organization_id, "chunk_hash": chunk["chunk_hash"]}
    for times, harm in enumerate(["none", "zero", "not a number", "short"], start=1):
        await tenant.database[embedding_cache.NAME].update_one(cached, {"$set": {"embedding": HARMS[harm]}})
        await harm_vector(tenant, filled, harm)
        assert (await indexer.reconcile(filled)).repaired == Counter(bad_vector=1), harm
        await indexer.work()
        assert (await read_chunks(tenant, filled), await tenant.spus()) == (before, spus + times), harm
    assert (await indexer.reconcile(filled)).found == Counter()


async def test_a_lost_cache_is_filled_from_the_knowledge_base_and_costs_nothing(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    cache = tenant.database[embedding_cache.NAME]
    mine = {"scope": tenant.organization_id}
    before, spus = await cache.find(mine, {"embedding": 1}).sort("_id").to_list(), await tenant.spus()
    for document_id in ("d1", "d2", "d3"):
        assert await forget_embeddings(tenant, filled, of=document_id)

    report = await indexer.reconcile(filled)

    assert report.found == report.repaired == Counter(missing_embedding=3)
    assert await cache.find(mine, {"embedding": 1}).sort("_id").to_list() == before
    assert await cache.count_documents(mine | {"expires_at": {"$lte": datetime.now(UTC)}}) == 0
    assert (await tenant.spus(), await tenant.jobs()) == (spus, {})
    await indexer.publish(tenant.ocr("copy", TEXTS["d1"]))
    assert await tenant.spus() == spus, "its vectors are used"
    await indexer.publish(tenant.deleted("copy", revision=2))


async def test_chunks_that_are_lost_together_with_the_cache_of_others_cost_nothing(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    before, spus = await read_chunks(tenant, filled), await tenant.spus()
    await forget_embeddings(tenant, filled, of="d1")
    await set_row(tenant, filled, config_hash="another")
    await tenant.database[filled.vector_collection].delete_many({"document_id": "d2"})

    report = await indexer.reconcile(filled)
    await indexer.work()

    assert report.found == Counter(missing_embedding=1, wrong_config=1, incomplete=1)
    assert (await read_chunks(tenant, filled), await tenant.spus()) == (before, spus)
    assert (await indexer.reconcile(filled)).found == Counter()


async def test_all_chunks_of_a_knowledge_base_are_rebuilt_from_the_cache(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    before, spus = await read_chunks(tenant, filled), await tenant.spus()
    await tenant.database[filled.vector_collection].delete_many({})

    assert (await indexer.reconcile(filled)).found == Counter(incomplete=len(TEXTS))
    await indexer.work()

    assert (await read_chunks(tenant, filled), await tenant.spus()) == (before, spus)


@pytest.mark.parametrize("harm", [{"chunk_text": "another text"}, {"chunk_hash": "0" * 64}])
async def test_a_chunk_that_is_not_what_its_id_says_is_not_trusted_but_indexed_again(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase, harm: dict[str, str]
) -> None:
    before, spus = await read_chunks(tenant, filled), await tenant.spus()
    await forget_embeddings(tenant, filled)
    await tenant.database[filled.vector_collection].update_one(SECOND_CHUNK, {"$set": harm})

    report = await indexer.reconcile(filled)
    await indexer.work()

    assert report.found == report.repaired == Counter(missing_embedding=1)
    assert await read_chunks(tenant, filled) == before
    assert await tenant.spus() == spus + 1, "the others are restored before"
    assert (await indexer.reconcile(filled)).found == Counter()


async def test_vectors_of_an_earlier_address_of_the_provider_are_kept_under_that_address(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    spus = await tenant.spus()
    row = await tenant.database[document_index.NAME].find_one({"kb_id": filled.kb_id, "document_id": "d1"})
    assert row is not None
    moved = row["vector_space"] | {"provider_fingerprint": "of another address"}
    await set_row(tenant, filled, vector_space=moved)

    assert (await indexer.reconcile(filled)).repaired == Counter(missing_embedding=1)

    space = document_index.VECTOR_SPACES.read(moved)
    keys = {space.key(chunk["chunk_hash"]): chunk["embedding"] for chunk in await read_chunks(tenant, filled, "d1")}
    assert await embedding_cache.find_vectors(tenant.database, space.scope, keys.keys()) == keys
    assert (await indexer.reconcile(filled)).found == Counter()
    assert await tenant.spus() == spus


async def test_documents_whose_vector_space_is_unknown_are_not_compared_with_the_cache(
    tenant: Tenant, indexer: Replica, filled: KnowledgeBase
) -> None:
    await set_row(tenant, filled, vector_space=None)
    await forget_embeddings(tenant, filled)
    assert (await indexer.reconcile(filled)).found == Counter()


async def test_an_incremental_pass_compares_vectors_only_where_the_last_pass_found_drift_of_them(
    own_tenant: Tenant, own_indexer: Replica, own_filled: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []

    async def find(database: Database, kb: KnowledgeBase, part: Slice) -> dict[str, str]:
        compared.append(kb.kb_id)
        return await find_vector_drift(database, kb, part)

    async def next_pass(unfinished: Mapping[str, list[str]]) -> Mapping[str, list[str]]:
        state = ReconcilerState(token=1, compared_until=datetime.now(UTC), unfinished=unfinished)
        return (await own_indexer.passes.incremental(state, leading)).stored_unfinished

    monkeypatch.setattr(reconcile, "find_vector_drift", find)
    assert await next_pass({}) == {}
    assert await next_pass({"membership": [own_filled.kb_id], "chunks": [own_filled.kb_id]}) == {}
    assert compared == []
    await forget_embeddings(own_tenant, own_filled)
    left = (await own_indexer.full_pass()).stored_unfinished
    assert (left["vectors"], compared) == ([own_filled.kb_id], [own_filled.kb_id])
    assert await next_pass(left) == {}
    assert compared == [own_filled.kb_id] * 2


async def test_the_server_computes_the_hashes_and_the_digest_of_vectors_that_the_swap_does(
    own_database: Database,
) -> None:
    vectors = [harmed(), harmed(n0=float("nan")), Binary(b"", 9), Binary(b"\x27\x00" + bytes(4096), 9), Binary(b"a", 0)]
    texts = ["", "text", "dök", "文書\n🗎", "a\0b"]
    rows = [{"_id": n, "embedding": vector, "text": texts[n]} for n, vector in enumerate(vectors)]
    await own_database["vectors"].insert_many(rows)

    hashes = {"vector": {"$toHashedIndexKey": "$embedding"}, "text": {"$toHashedIndexKey": "$text"}}
    found = await (await own_database["vectors"].aggregate([{"$sort": {"_id": 1}}, {"$project": hashes}])).to_list()
    [total] = await (
        await own_database["vectors"].aggregate([{"$group": {"_id": None, "sum": {"$sum": build_vector_expression()}}}])
    ).to_list()

    assert [row["vector"] for row in found] == [hash_vector(vector) for vector in vectors]
    assert [row["text"] for row in found] == [hash_text(text) for text in texts]
    assert total["sum"] == vectors_digest(vectors)


def test_the_soundness_of_a_vector_is_that_of_its_numbers() -> None:
    assert is_sound(harmed(), dimensions=DIMENSIONS)
    unsound = {name for name, vector in HARMS.items() if not is_sound(vector, dimensions=DIMENSIONS)}
    assert unsound == HARMS.keys() - {"of another text"}
    assert not is_sound(harmed(), dimensions=DIMENSIONS + 1)
    assert from_binary(harmed()).size == DIMENSIONS


async def test_an_earlier_version_s_list_of_unfinished_knowledge_bases_is_understood(own_database: Database) -> None:
    await own_database[reconciler_state.NAME].insert_one({"_id": "reconciler", "token": 1, "unfinished": ["k"]})
    state = await reconciler_state.begin(own_database)
    assert state.find_unfinished("k") == {"membership", "chunks"}
    assert state.find_unfinished("other") == frozenset()
