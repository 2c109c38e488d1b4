from collections.abc import Sequence
from typing import Any

import pytest

from kb_shared.mongo import embedding_cache, spu_ledger
from tests.chaos.workload import paragraph
from tests.e2e.running_system import RunningSystem
from tests.waiting import until

MOST_CHUNKS = 6
SETTINGS = {"chunk_size": 50, "chunk_overlap": 10, "max_chunks_per_document": MOST_CHUNKS}


@pytest.mark.parametrize(("chunker_type", "model"), [("recursive", "hash-41"), ("sentence", "hash-42")])
async def test_creating_a_knowledge_base_brings_what_its_preview_says(
    running: RunningSystem, chunker_type: str, model: str
) -> None:
    tag, earlier, price = *await running.create_tags(2), {"chunker_type": chunker_type, "embedding_model": model}
    system = running.system
    shared = [paragraph(f"{tag} shared {n}") for n in range(2)]
    await running.publish(
        running.upstream.ocr(f"{tag}-a", [*shared, paragraph(f"{tag} a")], tags=[tag]),
        # Each text is paid for once, whichever document has it, and how often.
        running.upstream.ocr(f"{tag}-b", [*shared, *shared[:1]], tags=[tag]),
        running.upstream.ocr(f"{tag}-paid", [paragraph(f"{tag} paid {n}") for n in range(3)], tags=[tag, earlier]),
        running.upstream.ocr(f"{tag}-blank", [" "], tags=[tag]),
        running.upstream.ocr(f"{tag}-long", [paragraph(f"{tag} long {n}") for n in range(20)], tags=[tag]),
        running.upstream.tagged(f"{tag}-unread", tag, revision=1),
    )
    first = await _create(running, earlier, **SETTINGS, **price)
    await _until_documents_are_there(running, tag, 6)
    spent_before, cached_before = await _spent(running, model), await _count_cached(running, model)

    body = {"tag_ids": [tag], **SETTINGS, **price}
    previewed = (await system.http.post("/knowledge-bases/preview", json=body)).raise_for_status().json()
    documents = previewed["documents"]
    assert documents["is_exact"]
    assert documents["estimate_reason"] is None
    assert (documents["document_count"], documents["too_large_count"], documents["waiting_count"]) == (4, 1, 1)
    assert documents["cached_count"] >= 4  # the three chunks of the earlier one, and the dimensions of the model
    assert await _spent(running, model) == spent_before, "a preview is charged"
    assert await _count_cached(running, model) == cached_before, "a preview stores vectors"

    kb_id = await _create(running, tag, **SETTINGS, **price)
    kb = (await system.http.get(f"/knowledge-bases/{kb_id}")).raise_for_status().json()
    assert kb["document_count"] == documents["document_count"]
    assert kb["chunk_count"] == documents["chunk_count"]
    assert await _spent(running, model) - spent_before == documents["spus"] > 0
    assert await _count_cached(running, model) == cached_before + documents["spus"]

    # What is left to do for the same documents is nothing, also for the KB with the other tag.
    again = (await system.http.post("/knowledge-bases/preview", json={"kb_id": kb_id})).json()["documents"]
    assert (again["spus"], again["document_count"]) == (0, 4)
    retagged = {"kb_id": first, "tag_ids": [tag]}
    change = (await system.http.post("/knowledge-bases/preview", json=retagged)).json()["documents"]
    assert (change["document_count"], change["removed_document_count"], change["spus"]) == (3, 0, 0)


async def test_the_chunks_that_a_preview_shows_are_those_that_are_indexed(running: RunningSystem) -> None:
    (tag,) = await running.create_tags(1)
    document_id = f"shown-{tag}"
    text = [f"# Heading {n}\n\n{paragraph(f'{document_id} {n}')}" for n in range(2)]
    await running.publish(running.upstream.ocr(document_id, text, tags=[tag]))
    kb_id = await _create(running, tag, **SETTINGS)
    await running.system.until_found(kb_id, [document_id])
    indexed = (
        await running.system.http.get(f"/knowledge-bases/{kb_id}/chunks?limit=100", params={"document_id": document_id})
    ).json()["chunks"]
    for shown in ({"kb_id": kb_id, "document_id": document_id}, {"text": "\n\n".join(text), **SETTINGS}):
        previewed = (await running.system.http.post("/knowledge-bases/preview", json=shown)).raise_for_status().json()
        assert _offsets(previewed["text"]["chunks"]) == _offsets(indexed)
        assert previewed["text"]["is_exact"]
        assert previewed["documents"] is None


def _offsets(chunks: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("chunk_index", "content", "start", "end", "token_count", "heading_path", "chunk_type")
    return [tuple(chunk[name] for name in names) for chunk in chunks]


async def _create(running: RunningSystem, tag: str, **options: Any) -> str:
    kb_id = await running.system.create_knowledge_base(tag, **options)
    await running.system.until_active(kb_id)
    return kb_id


async def _until_documents_are_there(running: RunningSystem, tag: str, number: int) -> None:
    async def all_are() -> bool:
        return await running.system.database["documents"].count_documents({"tag_ids": tag}) == number

    await until(all_are)


async def _spent(running: RunningSystem, model: str) -> int:
    rows = running.system.database[spu_ledger.NAME].find({"model": model})
    return sum([row["count"] async for row in rows])


async def _count_cached(running: RunningSystem, model: str) -> int:
    return await running.system.database[embedding_cache.NAME].count_documents({"embedding_model": model})
