"""`python -m benchmarks.reconcile_cost`: what passes of the reconciler cost, by the number of chunks.

For each number, a KB is filled with documents of 20 chunks. Then a full and an incremental pass are made without drift,
and again with drift in 1 % of the documents. Each pass runs in a process of its own, which has read nothing before.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

import psutil
from pymongo import AsyncMongoClient

from benchmarks import command
from benchmarks.reconcile_cost.rows import CHUNKS_PER_DOCUMENT, add_drift, fill
from kb_local.mongod import Mongod
from kb_local.ports import free_port

_CACHE_GB: Final = 2.0


def main() -> None:
    parser = command.parser("reconcile_cost", __doc__)
    parser.add_argument("--chunks", default="10000,100000", help="sizes of the KB, separated by commas")
    parser.add_argument("--dims", type=int, default=16, help="dimensions of the vectors")
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    sizes = [int(size) for size in options.chunks.split(",")]
    return {"sizes": [await _measure_size(folder, chunks=size, dimensions=options.dims) for size in sizes]}


async def _measure_size(folder: Path, *, chunks: int, dimensions: int) -> dict[str, Any]:
    server = Mongod(folder / f"mongod-{chunks}", port=free_port(), log=folder / "mongod.log", cache_gb=_CACHE_GB)
    await server.start()
    try:
        async with AsyncMongoClient[dict[str, Any]](server.uri, tz_aware=True) as client:
            database = client["benchmark"]
            documents = chunks // CHUNKS_PER_DOCUMENT
            print(f"writing {chunks} chunks", file=sys.stderr)
            await fill(database, documents=documents, dimensions=dimensions)
            without = {kind: await _measure_pass(server, kind) for kind in ("full", "incremental")}
            drifted = await add_drift(database, documents=documents)
            with_drift = {kind: await _measure_pass(server, kind) for kind in ("full", "incremental")}
            _check(with_drift["full"], drifted)
    finally:
        await server.stop()
    return {"chunks": chunks, "documents": documents, "without_drift": without, "with_drift": with_drift}


async def _measure_pass(server: Mongod, kind: str) -> dict[str, Any]:
    mongod = psutil.Process(server.pid)
    before = mongod.cpu_times()
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.reconcile_cost.one_pass", server.uri, kind, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await worker.communicate()
    if worker.returncode:
        raise SystemExit(f"the {kind} pass failed with exit code {worker.returncode}")
    after = mongod.cpu_times()
    figures: dict[str, Any] = json.loads(output)
    figures["mongod_cpu_s"] = round(after.user + after.system - before.user - before.system, 3)
    return figures


def _check(full: dict[str, Any], drifted: int) -> None:
    found = sum(full["found"].values())
    if found != drifted:
        raise SystemExit(f"the full pass found {found} documents with drift, and {drifted} have it")


if __name__ == "__main__":
    main()
