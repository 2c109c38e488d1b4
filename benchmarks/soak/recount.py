"""Counts what is stored, and compares it with what was published."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from benchmarks.load.population import DocumentPopulation, LoadDocument, LoadPartition


async def find_differences(database: AsyncDatabase[dict[str, Any]], population: DocumentPopulation) -> list[str]:
    """Return one sentence for each document that is missing, left over, doubled or old. The system must be idle."""
    return [
        difference
        for partition in population.partitions
        for difference in await _of_knowledge_base(database, partition, population.expected_members(partition))
    ]


async def _of_knowledge_base(
    database: AsyncDatabase[dict[str, Any]], partition: LoadPartition, expected: Mapping[str, LoadDocument]
) -> list[str]:
    kb_id = partition.kb_id
    of_kb = {"organization_id": partition.organization_id, "kb_id": kb_id}
    rows = {row["document_id"]: row async for row in database.document_index.find(of_kb)}
    live: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    fields = {"document_id": 1, "chunk_index": 1, "chunk_text": 1}
    async for chunk in database[f"kb_vectors_{kb_id}"].find({"until": None}, fields):
        live[chunk["document_id"]].append(chunk)
    found = [f"{document_id} is missing in {kb_id}" for document_id in expected.keys() - rows.keys()]
    found += [f"{document_id} is left over in {kb_id}" for document_id in (rows.keys() | live.keys()) - expected.keys()]
    for document_id in expected.keys() & rows.keys():
        wrong = _difference(expected[document_id], rows[document_id], live[document_id])
        found += [f"{document_id} in {kb_id} {wrong}"] if wrong else []
    slots = await database.kb_slots.find(of_kb).to_list()
    counted = sum(slot["documents"] for slot in slots), sum(slot["chunks"] for slot in slots)
    stored = len(rows), sum(map(len, live.values()))
    return found + ([f"{kb_id} counts {counted} documents and chunks, stored are {stored}"] * (counted != stored))


def _difference(expected: LoadDocument, row: Mapping[str, Any], chunks: list[dict[str, Any]]) -> str | None:
    positions = Counter(chunk["chunk_index"] for chunk in chunks)
    if positions != Counter(range(row["chunk_count"])):
        return f"has {len(chunks)} chunks, not {row['chunk_count']} in one order"
    if row["text_revision"] != expected.text_revision:
        return f"is indexed in revision {row['text_revision']}, not {expected.text_revision}"
    if not any(expected.marker in chunk["chunk_text"] for chunk in chunks):
        return "lacks the chunk that begins its newest text"
    return None
