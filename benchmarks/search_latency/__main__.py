"""`python -m benchmarks.search_latency`: what a search costs beyond the aggregates of the indexes, in the same run.

And what an iteration of the loop costs beyond its model and its search.

The chunks come in as events and searches go over HTTP, to the search service itself. Vectors of the questions are in
the cache, as those of repeated queries are. The raw aggregates are those that the service sends to the indexes, from
this process. `machine_loop_s` shows how fast a core was before and after: ratios hold, milliseconds are of the moment.
"""

import argparse
import asyncio
import json
import random
from collections.abc import Awaitable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import httpx
import numpy as np
import psutil
from pymongo import AsyncMongoClient

from benchmarks.indexed_corpus import CorpusDocument, CorpusKnowledgeBase, folder_for, indexed
from benchmarks.indexing import corpus
from benchmarks.machine import loop_s
from benchmarks.members import add_members_option
from benchmarks.search_latency.load import search_at_rate, search_concurrently, search_in_turn
from benchmarks.search_latency.runs import iterations
from benchmarks.search_latency.searchers import RawAggregates, SearchQuestion, SearchService
from kb_shared.mongo.database import Database
from kb_shared.mongo.vectors import Chunks

MODES = ("vector", "text", "hybrid")
WORDS = 3_000
CHUNKS_A_DOCUMENT = 44
CHUNK_SIZE = 200
CONCURRENCY = 16
EXACT_UP_TO_CHUNKS = 10_000
RUNS = 100

T = TypeVar("T")


def main() -> None:
    options = _options()
    with folder_for(options.keep) as folder:
        figures = asyncio.run(_run(folder, options))
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name}: {value}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search_latency", description=__doc__)
    parser.add_argument("--chunks", type=int, default=50_000)
    parser.add_argument("--dims", type=int, default=384)
    parser.add_argument("--questions", type=int, default=300, help="of each kind of load and mode")
    parser.add_argument("--keep", type=Path, help="folder that keeps what was indexed, for the next run over the same")
    add_members_option(parser)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.keep is not None and options.members > 1:
        parser.error("--keep works with one member only: the ports of a replica set are new in each run")
    return options


async def _run(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    count = max(1, round(options.chunks / CHUNKS_A_DOCUMENT))
    texts = list(corpus.texts(documents=count, words=WORDS))
    documents = [CorpusDocument(f"doc-{number}", "", text) for number, text in enumerate(texts)]
    settings = {"embedding_model": f"hash-{options.dims}", "chunk_size": CHUNK_SIZE, "chunk_overlap": 0}
    async with (
        indexed(folder, documents, MODES, members=options.members, **settings) as kb,
        AsyncMongoClient[dict[str, Any]](kb.stack.mongo_uri, tz_aware=True) as client,
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {kb.stack.api_key}"}) as http,
    ):
        chunks = (await kb.view())["chunk_count"] - 1
        raw_chunks = _chunks(client[kb.stack.database], kb)
        questions = await _questions(kb, texts, options.questions)
        exact = chunks <= EXACT_UP_TO_CHUNKS
        # Without the gateway, which stands in for whatever a deployment has there.
        service = kb.stack.services["kb_search"].url
        url = f"{service}/v0/orgs/{kb.stack.organization_id}/knowledge-bases/{kb.kb_id}/search"
        loop_before_s = loop_s()
        by_mode = {
            mode: await _compare(kb, RawAggregates(raw_chunks, mode, exact), SearchService(http, url, mode), questions)
            for mode in MODES
        }
        of_runs = await iterations(kb, http, questions[:RUNS])
        loop_after_s = loop_s()
    return {
        "options": {name: str(value) for name, value in vars(options).items() if name != "json" and value is not None},
        "chunks": chunks,
        "machine_loop_s": {"before": loop_before_s, "after": loop_after_s},
        **by_mode,
        "runs": asdict(of_runs),
    }


def _chunks(database: Database, kb: CorpusKnowledgeBase) -> Chunks:
    return Chunks(database[f"kb_vectors_{kb.kb_id}"], kb.stack.organization_id, kb.kb_id)


async def _questions(kb: CorpusKnowledgeBase, texts: Sequence[str], number: int) -> list[SearchQuestion]:
    """Five words in a row of a document each, with their vectors; the service is asked once, and so knows these too."""
    dice = random.Random(0)
    asked = []
    for _ in range(number):
        words = dice.choice(texts).split()
        start = dice.randrange(len(words) - 5)
        asked.append(" ".join(words[start : start + 5]))
    model = (await kb.view())["embedding_model"]
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        answer = await http.post(f"{kb.stack.models_api_base}/embeddings", json={"model": model, "input": asked})
    found = [np.asarray(each["embedding"], dtype=np.float32) for each in answer.raise_for_status().json()["data"]]
    for text in asked:
        await kb.search(text, mode="vector", top_k=1)
    return [SearchQuestion(text, vector) for text, vector in zip(asked, found, strict=True)]


async def _compare(
    kb: CorpusKnowledgeBase, raw: RawAggregates, service: SearchService, questions: Sequence[SearchQuestion]
) -> dict[str, Any]:
    await search_in_turn([raw, service], questions[:20])  # connections, caches
    calls = await _embedding_calls(kb)
    alone, cpu_alone_s = await _with_cpu(kb, search_in_turn([raw, service], questions))
    capacity_of_raw = await search_concurrently(raw, questions, concurrency=CONCURRENCY)
    capacity, cpu_together_s = await _with_cpu(kb, search_concurrently(service, questions, concurrency=CONCURRENCY))
    arrival = [await search_at_rate(searcher, questions, per_second=capacity_of_raw / 2) for searcher in (raw, service)]
    return {
        "one_at_a_time_ms": {
            "raw": asdict(alone[0]),
            "service": asdict(alone[1]),
            "p50_over_raw": round(alone[1].p50 - alone[0].p50, 2),
        },
        "service_cpu_ms_a_search": round(cpu_alone_s * 1000 / len(questions), 2),
        f"per_second_of_{CONCURRENCY}_at_once": {
            "raw": round(capacity_of_raw, 1),
            "service": round(capacity, 1),
            "share_of_raw": round(capacity / capacity_of_raw, 2),
            "service_cpu_ms_a_search": round(cpu_together_s * 1000 / len(questions), 2),
        },
        "arriving_at_half_of_raw_ms": {
            "raw": asdict(arrival[0]),
            "service": asdict(arrival[1]),
            "p99_of_raw": round(arrival[1].p99 / arrival[0].p99, 2),
        },
        "embedding_calls": await _embedding_calls(kb) - calls,
    }


async def _with_cpu(kb: CorpusKnowledgeBase, asking: Awaitable[T]) -> tuple[T, float]:
    """Run it; return its result and the seconds of CPU that the service used."""
    before = _cpu_s(kb)
    return await asking, _cpu_s(kb) - before


async def _embedding_calls(kb: CorpusKnowledgeBase) -> int:
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.get(kb.stack.models_api_base.removesuffix("/v1") + "/admin/hash")
    return int(answer.raise_for_status().json()["calls"])


def _cpu_s(kb: CorpusKnowledgeBase) -> float:
    times = psutil.Process(kb.stack.services["kb_search"].pid).cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
