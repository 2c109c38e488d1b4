"""What is embedded of a text is normalized in new knowledge bases, and in older ones nothing is ever embedded again."""

import hashlib

import pytest

from kb_shared.chunking import ChunkerType
from kb_shared.mongo import knowledge_bases
from kb_shared.mongo.backfills import Kind
from kb_shared.mongo.database import Row
from kb_shared.mongo.knowledge_bases import KnowledgeBase
from kb_shared.text.text_normalization import AS_WRITTEN
from tests.integration.indexer.conftest import ModelControls
from tests.integration.indexer.support import Replica, Tenant, paragraph
from tests.integration.indexer.test_scans import start_scan

COFFEE = "co\ufb00ee"
TYPESET = "\n\n\n\n".join(paragraph(n, about=COFFEE) + "    So\u00adft." for n in range(6))
PLAIN = TYPESET.replace("\ufb00", "ff").replace("\u00ad", "").replace("\n\n\n\n", "\n\n").replace("    ", "  ")


async def chunks(tenant: Tenant, kb: KnowledgeBase, document_id: str) -> list[Row]:
    rows = tenant.database[kb.vector_collection].find({"document_id": document_id, "until": None})
    return await rows.sort("chunk_index").to_list()


@pytest.mark.parametrize("chunker_type", ChunkerType)
async def test_vectors_are_of_the_normalized_text_and_chunks_are_of_the_text_as_it_was_sent(
    tenant: Tenant, indexer: Replica, chunker_type: ChunkerType
) -> None:
    kb = await tenant.create_kb("a", chunker_type=chunker_type, chunk_size=100)
    await indexer.publish(tenant.ocr("d", TYPESET))
    await indexer.work()

    await tenant.assert_holds(kb, {"d": TYPESET})
    stored = await chunks(tenant, kb, "d")
    assert all(row["chunk_text"] == TYPESET[row["start"] : row["end"]] for row in stored)
    assert any("\ufb00" in row["chunk_text"] for row in stored)
    await tenant.assert_settled()


async def test_a_text_that_differs_only_in_how_it_is_typeset_costs_nothing_and_keeps_its_own_wording(
    tenant: Tenant, indexer: Replica, provider: ModelControls
) -> None:
    # A paragraph is a chunk, however it is typeset.
    kb = await tenant.create_kb("a", chunk_size=50)
    await indexer.publish(tenant.ocr("d", PLAIN))
    await indexer.work()
    paid, before = await tenant.spus(), await chunks(tenant, kb, "d")

    await indexer.publish(tenant.ocr("d", TYPESET, revision=2))
    await indexer.work()

    after = await chunks(tenant, kb, "d")
    assert await tenant.spus() == paid == await provider.inputs()
    assert [row["chunk_hash"] for row in after] == [row["chunk_hash"] for row in before]
    assert not {row["_id"] for row in after} & {row["_id"] for row in before}, "an id means one text"
    assert [row["_id"] for row in after] == [
        f"d:{hashlib.sha256((row['chunk_hash'] + row['chunk_text']).encode()).hexdigest()[:24]}:0" for row in after
    ]
    await tenant.assert_holds(kb, {"d": TYPESET})


@pytest.mark.parametrize("chunker_type", [ChunkerType.RECURSIVE, ChunkerType.SEMANTIC])
async def test_an_upgrade_costs_an_older_knowledge_base_nothing_and_leaves_its_ids(
    tenant: Tenant, indexer: Replica, provider: ModelControls, chunker_type: ChunkerType
) -> None:
    kb = await tenant.create_kb("a", chunker_type=chunker_type, chunk_size=100, normalization=AS_WRITTEN)
    await indexer.publish(tenant.ocr("d", TYPESET))
    await indexer.work()
    # As the release before wrote it.
    row = {"_id": kb.kb_id}
    await tenant.database[knowledge_bases.NAME].update_one(row, {"$unset": {"text_normalization": 1}})
    paid, before = await tenant.spus(), await chunks(tenant, kb, "d")
    assert [row["_id"] for row in before] == [f"d:{row['chunk_hash'][:24]}:0" for row in before]

    await start_scan(tenant, kb, Kind.REINDEX)
    await indexer.scan()
    await indexer.work()
    assert await chunks(tenant, kb, "d") == before

    await indexer.publish(tenant.ocr("d", TYPESET + "\n\n" + paragraph(7), revision=2))
    await indexer.work()
    kept = [row["_id"] for row in await chunks(tenant, kb, "d")][: len(before) - 1]
    assert kept == [row["_id"] for row in before][: len(before) - 1]
    assert paid < await tenant.spus() == await provider.inputs() <= paid + 6
    await tenant.assert_holds(kb, {"d": TYPESET + "\n\n" + paragraph(7)})
