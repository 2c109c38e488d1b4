"""`python -m benchmarks.overload`: how many documents are indexed while more come than can be.

The indexer and mongod are limited to a share of a CPU. First a burst of documents measures their capacity; then
documents come at that rate, at twice, four and eight times of it, each on a fresh system. What counts is how many of
them are searchable when the time is over, and how many swaps ran in vain.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any, Final

from benchmarks import command
from benchmarks.indexing import corpus
from benchmarks.indexing.system import System, add_options, running_system, until
from kb_local.cpu_share import limit_cpu
from kb_local.server import Server
from kb_shared.mongo import document_index

TAG: Final = "offered"
_HELD: Final = frozenset({"kb-indexer", "mongod"})
_WARM_UP: Final = 5
_PUBLISH_EVERY_S: Final = 0.25


def main() -> None:
    parser = command.parser("overload", __doc__)
    parser.add_argument("--cpu-share", type=float, default=0.1, help="of the indexer and of mongod, each")
    parser.add_argument("--loads", type=float, nargs="+", default=[1, 2, 4, 8], help="times the capacity")
    parser.add_argument("--burst", type=int, default=100, help="documents that measure the capacity")
    parser.add_argument("--seconds", type=float, default=60, help="that documents come for, at each load")
    add_options(parser, words=1_000, dims=384)
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    capacity = await _capacity(folder / "capacity", options)
    loads = {f"{load:g}": await _under(folder / f"load-{load:g}", options, load * capacity) for load in options.loads}
    best = max(capacity, *(each["docs_per_s"] for each in loads.values()))
    for each in loads.values():
        each["of_best"] = round(each["docs_per_s"] / best, 3)
    return {"capacity_docs_per_s": round(capacity, 2), "loads": loads}


async def _capacity(folder: Path, options: argparse.Namespace) -> float:
    """Documents a second of a burst."""
    async with _slow_system(folder, options) as system:
        began = monotonic()
        await system.events.publish_all(_events(system, options, first=_WARM_UP, number=options.burst))
        await until(lambda: _are_indexed(system, _WARM_UP + options.burst))
        return float(options.burst / (monotonic() - began))


async def _under(folder: Path, options: argparse.Namespace, rate: float) -> dict[str, Any]:
    """Publish so many documents a second for some time; count what was indexed in it."""
    async with _slow_system(folder, options) as system:
        began, published = monotonic(), 0
        while (passed_s := monotonic() - began) < options.seconds:
            due = int(rate * passed_s) - published
            await system.events.publish_all(_events(system, options, first=_WARM_UP + published, number=due))
            published += due
            await asyncio.sleep(_PUBLISH_EVERY_S)
        passed_s = monotonic() - began
        indexed = await _indexed(system) - _WARM_UP
        return {
            "offered_docs_per_s": round(published / passed_s, 2),
            "docs_per_s": round(indexed / passed_s, 2),
            "swaps_expired": await _swaps(system, "expired"),
            "swaps_in_conflict": await _swaps(system, "conflict"),
        }


@asynccontextmanager
async def _slow_system(folder: Path, options: argparse.Namespace) -> AsyncIterator[System]:
    """Start a system with a KB and some documents, and only then hold it to its share."""
    async with running_system(folder, options) as system:
        await system.create_knowledge_base(TAG, options)
        await system.events.publish_all(_events(system, options, first=0, number=_WARM_UP))
        await until(lambda: _are_indexed(system, _WARM_UP))

        def servers() -> list[Server]:
            return [server for server in system.stack.servers if server.name in _HELD]

        async with limit_cpu(options.cpu_share, servers):
            yield system


def _events(system: System, options: argparse.Namespace, *, first: int, number: int) -> list[Any]:
    texts = corpus.texts(documents=number, words=options.words, first=first)
    return [system.event(f"doc-{n}", text, tag_id=TAG) for n, text in enumerate(texts, first)]


async def _indexed(system: System) -> int:
    return int(await system.mongod[system.stack.database][document_index.NAME].count_documents({}))


async def _are_indexed(system: System, number: int) -> bool:
    # What asks all the time would take from the share of mongod.
    await asyncio.sleep(_PUBLISH_EVERY_S)
    return await _indexed(system) >= number


async def _swaps(system: System, outcome: str) -> int:
    """Read a counter of the indexer."""
    [indexer] = [server for server in system.stack.services.values() if server.name == "kb-indexer"]
    answer = (await system.http.get(f"{indexer.url}/metrics")).raise_for_status().text
    line = f'kb_swap_transactions_total{{outcome="{outcome}"}} '
    return int(sum(float(each.removeprefix(line)) for each in answer.splitlines() if each.startswith(line)))


if __name__ == "__main__":
    main()
