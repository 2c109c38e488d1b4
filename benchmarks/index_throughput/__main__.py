"""`python -m benchmarks.index_throughput`: how fast events become searchable, and what that costs."""

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import httpx
from pymongo import AsyncMongoClient

from benchmarks.index_throughput import corpus, raw_limit
from benchmarks.index_throughput.outcomes import outcomes_of
from benchmarks.index_throughput.passes import TAG, Target, run_pass, until
from kb_client.events import EventPublisher
from kb_local.stack import Stack


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="kb-benchmark-") as folder:
        figures = asyncio.run(_run(Path(folder), options))
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name}: {value}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.index_throughput", description=__doc__)
    parser.add_argument("--docs", type=int, default=200)
    parser.add_argument("--words", type=int, default=3_000, help="a document")
    parser.add_argument("--dims", type=int, default=1_536)
    parser.add_argument("--chunk-size", type=int, default=200, help="tokens")
    parser.add_argument("--chunk-overlap", type=int, default=0, help="tokens")
    parser.add_argument("--embed-delay-ms", type=int, default=50, help="of the embedding server, a call")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


async def _run(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    model = f"hash-{options.dims}"
    texts = list(corpus.texts(documents=options.docs, words=options.words))
    services = ("kb_api", "kb_indexer", "kb_search")
    async with (
        Stack(folder, services=services) as stack,
        AsyncMongoClient[dict[str, Any]](stack.mongod_uri) as mongod,
        EventPublisher(stack.kafka, source="/benchmark", idempotence=False) as events,
        outcomes_of(stack.kafka) as outcomes,
        httpx.AsyncClient(
            base_url=f"{stack.base_url}/v0/orgs/{stack.organization_id}",
            headers={"Authorization": f"Bearer {stack.api_key}"},
            timeout=60,
        ) as http,
    ):
        kb_id = await _create_knowledge_base(http, model, options)
        await _set_delay(stack, options.embed_delay_ms)
        target = Target(stack, mongod, http, events, outcomes, kb_id)
        first = await run_pass(target, texts, revision=1)
        second = await run_pass(target, texts, revision=2)
        size = (await mongod[stack.database].command("collStats", f"kb_vectors_{kb_id}"))["avgObjSize"]
        inserts = await raw_limit.insert_rate(stack.mongo_uri, stack.database, f"kb_vectors_{kb_id}", options.docs)
        embeds = await raw_limit.embed_rate(
            stack.models_api_base, model, documents=options.docs, chunks=first["chunks"]
        )
    return {
        "options": {name: value for name, value in vars(options).items() if name != "json"},
        **first,
        "avg_obj_size": size,
        "unchanged": second,
        "unchanged_speedup": round(first["seconds"] / second["seconds"], 1),
        "raw_limit": {
            "insert_docs_per_s": round(inserts, 1),
            "embed_docs_per_s": round(embeds, 1),
            "share_reached": round(first["docs_per_s"] / min(inserts, embeds), 3),
        },
    }


async def _create_knowledge_base(http: httpx.AsyncClient, model: str, options: argparse.Namespace) -> str:
    (await http.post("/tags", json={"tag_id": TAG, "name": TAG})).raise_for_status()
    body = {
        "name": "Benchmark",
        "tag_ids": [TAG],
        "embedding_model": model,
        "chunker_type": "recursive",
        "chunk_size": options.chunk_size,
        "chunk_overlap": options.chunk_overlap,
    }
    created = (await http.post("/knowledge-bases", json=body)).raise_for_status().json()

    async def is_active() -> bool:
        kb = (await http.get(f"/knowledge-bases/{created['kb_id']}")).raise_for_status().json()
        return bool(kb["status"] == "active")

    await until(is_active)
    return str(created["kb_id"])


async def _set_delay(stack: Stack, delay_ms: int) -> None:
    async with httpx.AsyncClient() as http:
        address = stack.models_api_base.removesuffix("/v1") + "/admin/hash"
        (await http.put(address, json={"delay_ms": delay_ms})).raise_for_status()


if __name__ == "__main__":
    main()
