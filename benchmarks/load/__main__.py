"""`python -m benchmarks.load`: searches and events at given rates, in an open loop.

Calls arrive at random times (a Poisson process), whether earlier ones have been answered or not. Every latency counts
from the scheduled time of its call. If the generator itself is late, the output says `"valid": false` and why, and the
exit status is 1.

Without `--url`, the local stack is started in a temporary folder, with a model server that answers `hash-...` models.
With `--url`, a running deployment gets the load: new knowledge bases, tags and documents are created in it and stay.
Kafka is then found through the KB_KAFKA settings of the environment.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final
from uuid import uuid4

from benchmarks import process_usage
from benchmarks.indexed_corpus import folder_for
from benchmarks.load.options import add_load_options, load_shape
from benchmarks.load.sources import documents_for
from benchmarks.load.target import LoadTarget, LocalStackOptions, OrganizationAccess, local_target, remote_target
from benchmarks.load.workload import LoadWorkload
from benchmarks.machine import loop_s

_PROGRESS_EVERY_S: Final = 5.0


def main() -> None:
    options = _options()
    with folder_for(options.keep) as folder:
        figures = asyncio.run(_run(folder, options))
    print(json.dumps(figures, indent=2))
    sys.exit(0 if figures["valid"] else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_load_options(parser, searches_per_s=20, events_per_s=5)
    parser.add_argument("--seconds", type=float, default=60, help="time of the load after the warm-up (default: 60)")
    parser.add_argument("--warm-up", type=float, default=10, help="seconds of load that are not counted (default: 10)")
    parser.add_argument(
        "--max-lag-ms",
        type=float,
        default=50,
        help="the result is invalid if the generator's own lag is larger (p99; default: 50)",
    )
    remote = parser.add_argument_group("a deployment that runs already")
    remote.add_argument("--url", help="its base URL; Kafka is found through KB_KAFKA and the like")
    remote.add_argument(
        "--keys", type=Path, metavar="FILE", help="lines of an organization, a blank and an API key with scope admin"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="folder for the local stack, which is kept")
    options = parser.parse_args()
    if (options.url is None) != (options.keys is None):
        parser.error("--url and --keys belong together")
    return options


async def _run(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    async with _target(folder, options) as target:
        settings = {"embedding_model": options.model} if options.model else {}
        # Of this run only: documents of an earlier one are newer than events that begin again with revision 1.
        run_id = f"load{uuid4().hex[:8]}"
        partitions = await target.create_knowledge_bases(run_id, number=options.knowledge_bases, settings=settings)
        workload = LoadWorkload(target, load_shape(options), partitions, list(documents_for(options.corpus)), run_id)
        print(f"indexing {options.preload} documents", file=sys.stderr)
        await workload.preload(options.preload)
        loop_before_s = loop_s()
        used, busy_s, began = process_usage.cpu_s_of(target.stack), process_usage.busy_cpu_s(), perf_counter()
        async with _progress(workload):
            await workload.run(options.seconds, warm_up_s=options.warm_up)
        used = process_usage.difference(used, process_usage.cpu_s_of(target.stack))
        busy_s, took_s = process_usage.busy_cpu_s() - busy_s, perf_counter() - began
        problems = workload.problems(max_lag_ms=options.max_lag_ms)
        return {
            "options": {name: str(value) for name, value in vars(options).items() if value is not None},
            "valid": not problems,
            "problems": problems,
            "machine_loop_s": {"before": loop_before_s, "after": loop_s()},
            "cpu_s": used,
            # On a shared machine, latencies are also those of the other processes.
            "cores_used": {
                "own": round(sum(used.values()) / took_s, 2),
                "others": round(max(0.0, busy_s - sum(used.values())) / took_s, 2),
            },
            **workload.figures(seconds=options.seconds),
        }


@asynccontextmanager
async def _target(folder: Path, options: argparse.Namespace) -> AsyncIterator[LoadTarget]:
    if options.url is not None:
        async with remote_target(options.url.rstrip("/"), list(_access(options.keys)), os.environ) as target:
            yield target
        return
    local = LocalStackOptions(options.organizations, options.indexers, options.embed_delay_ms)
    async with local_target(folder, local) as target:
        yield target


def _access(file: Path) -> Iterator[OrganizationAccess]:
    for line in file.read_text().splitlines():
        if line.strip():
            organization_id, key = line.split()
            yield OrganizationAccess(organization_id, key)


@asynccontextmanager
async def _progress(workload: LoadWorkload) -> AsyncIterator[None]:
    async def report() -> None:
        while True:
            await asyncio.sleep(_PROGRESS_EVERY_S)
            print(workload.progress(), file=sys.stderr, flush=True)

    task = asyncio.create_task(report())
    try:
        yield
    finally:
        task.cancel()


if __name__ == "__main__":
    main()
