"""`python -m benchmarks.chunking_time`: what 1 MB and 10 MB of text cost each chunker, and the event loop beside it."""

import argparse
import asyncio
import hashlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np

from benchmarks.indexing import corpus
from kb_shared.chunking import ChunkerType, ChunkingConfig, PageSpan, chunk_text, count_tokens
from kb_shared.mongo.vector import Vector

_LOOP_TICK_S = 0.005


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chunking_time", description=__doc__)
    parser.add_argument("--megabytes", type=int, nargs=2, default=[1, 10], metavar=("LESS", "MORE"))
    parser.add_argument("--chunkers", nargs="+", default=list(ChunkerType), choices=list(ChunkerType))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asyncio.run(_measure(ChunkerType(options.one[0]), int(options.one[1])))))
        return
    for chunker in options.chunkers:
        less, more = (_in_own_process(chunker, megabytes) for megabytes in options.megabytes)
        ratio = round(more["cpu_s"] / less["cpu_s"], 1)
        print(json.dumps({"chunker": chunker, "cpu_ratio": ratio, "less": less, "more": more}), flush=True)


def _in_own_process(chunker: str, megabytes: int) -> dict[str, float]:
    """So that its peak of memory is its own."""
    command = [sys.executable, "-m", "benchmarks.chunking_time", "--one", chunker, str(megabytes)]
    answer = subprocess.run(command, check=True, capture_output=True)  # noqa: S603  # this module itself
    figures: dict[str, float] = json.loads(answer.stdout)
    return figures


async def _measure(chunker: ChunkerType, megabytes: int) -> dict[str, float]:
    text = _text(megabytes * 1_000_000)
    pages = [PageSpan(number, start, start + 3_000) for number, start in enumerate(range(0, len(text), 3_000), 1)]
    config = ChunkingConfig(chunker, 512, 128)
    count_tokens("loads the vocabulary")
    memory_before = _peak_megabytes()
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max_workers=1) as executor:
        began, cpu_began = time.monotonic(), time.process_time()
        work = loop.run_in_executor(executor, lambda: chunk_text(text, config, pages=pages, embed=_vectors))
        delays = [0.0]
        while not work.done():
            slept = time.monotonic()
            await asyncio.sleep(_LOOP_TICK_S)
            delays.append(time.monotonic() - slept - _LOOP_TICK_S)
        chunks = await work
    return {
        "cpu_s": round(time.process_time() - cpu_began, 2),
        "wall_s": round(time.monotonic() - began, 2),
        "chunks": len(chunks),
        "memory_mb": _peak_megabytes() - memory_before,
        "loop_delay_p99_ms": round(sorted(delays)[int(0.99 * len(delays))] * 1_000, 1),
    }


def _text(code_points: int) -> str:
    """Return sections of prose with a table in every tenth."""
    rows = "".join(f"| item {n} | {n * 7} |\n" for n in range(60))
    parts: list[str] = []
    missing = code_points
    for number, prose in zip(count(), corpus.texts(documents=code_points, words=300), strict=False):
        table = f"| name | size |\n|---|---:|\n{rows}\n" if number % 10 == 0 else ""
        parts.append(f"{'#' * (number % 5 + 1)} Part {number}\n\n{prose}\n\n{table}")
        missing -= len(parts[-1])
        if missing <= 0:
            break
    return "".join(parts)[:code_points]


def _vectors(texts: Sequence[str]) -> list[Vector]:
    """Arbitrary ones: grouping costs the same whatever they are."""
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return [np.frombuffer(digest, dtype=np.uint8).astype(np.float32) + 1 for digest in digests]


def _peak_megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_024


if __name__ == "__main__":
    main()
