"""`python -m benchmarks.unit_costs`: what a document, a chunk and a search cost, for `benchmarks.capacity`.

Indexes documents through the whole local stack, reads the sizes of all collections, and searches. Bytes are those of
MongoDB's `collStats`: `size` is uncompressed, `storageSize` is on disk, indexes are counted apart. CPU is that of all
processes; seconds of CPU depend less than times on what else the machine does.
"""

import argparse
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks import command, process_usage
from benchmarks.corpus.documents import RealDocument
from benchmarks.indexing.system import System, add_options, running_system
from benchmarks.load.sources import documents_for
from benchmarks.machine import loop_s
from kb_contracts.cloudevents import encode

TAG: Final = "measured"
_BATCH: Final = 100
_WORDS_A_QUERY: Final = 5
_MODES: Final = ("hybrid", "vector", "text")


def main() -> None:
    parser = command.parser("unit_costs", __doc__)
    parser.add_argument("--corpus", metavar="FILE", help="documents.jsonl of `benchmarks.corpus`")
    parser.add_argument("--docs", type=int, default=1_000, help="documents (default: 1000)")
    parser.add_argument("--searches", type=int, default=200, help="of each mode (default: 200)")
    add_options(parser, words=330)
    parser.set_defaults(chunk_size=512, chunk_overlap=128)
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    sources = [
        each
        for _, each in zip(
            range(options.docs), documents_for(Path(options.corpus) if options.corpus else None), strict=False
        )
    ]
    async with running_system(folder, options) as system:
        kb_id = await system.create_knowledge_base(TAG, options)
        loop_before_s = loop_s()
        indexing = await _index(system, kb_id, sources)
        sizes = await _sizes(system, kb_id, documents=len(sources), chunks=indexing["chunks"])
        searching = {mode: await _search(system, kb_id, sources, mode=mode, number=options.searches) for mode in _MODES}
    return {
        "machine_loop_s": {"before": loop_before_s, "after": loop_s()},
        "documents": len(sources),
        **indexing,
        "bytes": sizes,
        "cpu_ms_per_search": searching,
    }


async def _index(system: System, kb_id: str, sources: Sequence[RealDocument]) -> dict[str, Any]:
    events = [system.event(each.document_id, each.text, tag_id=TAG) for each in sources]
    before = process_usage.cpu_s_of(system.stack)
    for start in range(0, len(events), _BATCH):
        await system.events.publish_all(events[start : start + _BATCH])
    last = await system.outcomes.until_indexed([each.document_id for each in sources], revision=1)
    await system.until_found(kb_id, last[-1:])
    used = process_usage.difference(before, process_usage.cpu_s_of(system.stack))
    chunks = await system.live_chunks([kb_id])
    collection = system.mongod[system.stack.database][f"kb_vectors_{kb_id}"]
    [tokens] = await (
        await collection.aggregate([{"$group": {"_id": None, "mean": {"$avg": "$token_count"}}}])
    ).to_list()
    texts = sum(len(each.text.encode()) for each in sources)
    return {
        "chunks": chunks,
        "chunks_per_document": round(chunks / len(sources), 2),
        "tokens_per_chunk": round(tokens["mean"], 1),
        "text_bytes_per_document": round(texts / len(sources)),
        "event_bytes_per_document": round(sum(len(encode(each, source="/benchmark")) for each in events) / len(events)),
        "cpu_ms_per_chunk": {name: round(1000 * seconds / chunks, 3) for name, seconds in used.items()},
        "cpu_ms_per_document": {name: round(1000 * seconds / len(sources), 2) for name, seconds in used.items()},
        "search_node_memory_mb": process_usage.memory_mb_of(system.stack)["search-node"],
    }


async def _sizes(system: System, kb_id: str, *, documents: int, chunks: int) -> Mapping[str, Mapping[str, float]]:
    """Return the bytes of each collection, per chunk for chunks and the cache, else per document."""
    database = system.mongod[system.stack.database]
    # Else the newest data is in memory only, and missing in the sizes on disk.
    await system.mongod.admin.command("fsync")
    found = {}
    for name in sorted(await database.list_collection_names()):
        stats = await database.command("collStats", name)
        of_chunks = name.endswith(kb_id) or name == "embedding_cache"
        divisor = chunks if of_chunks else documents
        found["kb_vectors" if name.endswith(kb_id) else name] = {
            "per": "chunk" if of_chunks else "document",
            "data": round(stats["size"] / divisor, 1),
            "on_disk": round(stats["storageSize"] / divisor, 1),
            "indexes_on_disk": round(stats["totalIndexSize"] / divisor, 1),
        }
    return {name: sizes for name, sizes in found.items() if sizes["data"] >= 1}


async def _search(
    system: System, kb_id: str, sources: Sequence[RealDocument], *, mode: str, number: int
) -> Mapping[str, float]:
    """Return milliseconds of CPU per search and process; half of the queries are new, and need an embedding."""
    dice = random.Random(mode)
    queries = [_words_of(dice.choice(sources).text, dice) for _ in range(number // 2)] * 2
    before = process_usage.cpu_s_of(system.stack)
    for query in queries:
        body = {"query": query, "mode": mode, "top_k": 10}
        (await system.http.post(f"/knowledge-bases/{kb_id}/search", json=body)).raise_for_status()
    used = process_usage.difference(before, process_usage.cpu_s_of(system.stack))
    return {name: round(1000 * seconds / len(queries), 2) for name, seconds in used.items()}


def _words_of(text: str, dice: random.Random) -> str:
    words = text.split()
    start = dice.randrange(max(1, len(words) - _WORDS_A_QUERY))
    return " ".join(words[start : start + _WORDS_A_QUERY])[:200]


if __name__ == "__main__":
    main()
