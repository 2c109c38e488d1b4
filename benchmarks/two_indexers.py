"""`python -m benchmarks.two_indexers`: documents a second with two indexers, and with one, if the provider is slow.

Rounds of either kind take turns. A rate is that of the documents from the first tenth to seven tenths of a round. Both
indexers have work then. At the end of a round one may be idle, because a document's key decides which indexer gets it:
the rate of the whole round has that, too. `cores_used` and `by_process` show whether the CPU was the limit.
"""

import argparse
import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any, Final

from benchmarks import command
from benchmarks.indexing import corpus
from benchmarks.indexing.resource_usage import cpu_s_of
from benchmarks.indexing.system import System, add_options, running_system

TAG: Final = "shared"
_SECOND: Final = "kb_indexer:2"
_WARM_UP_SHARE: Final = 0.25
"""Share of a round's documents that are indexed before it, by which a process learns how much to ask for at once."""
_FROM: Final = 0.1
_TO: Final = 0.7


def main() -> None:
    parser = command.parser("two_indexers", __doc__)
    parser.add_argument("--docs", type=int, default=300, help="a round")
    parser.add_argument("--rounds", type=int, default=2, help="of either kind")
    parser.add_argument(
        "--max-in-flight", type=int, default=4, help="documents that an indexer works on at once (KB_MAX_IN_FLIGHT)"
    )
    add_options(parser, words=330, dims=384)
    parser.set_defaults(embed_delay_ms=500)
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    async with running_system(folder, options, env={"KB_MAX_IN_FLIGHT": str(options.max_in_flight)}) as system:
        await system.create_knowledge_base(TAG, options)
        numbers = count()
        of_one, of_two = [], []
        for _ in range(options.rounds):
            of_one.append(await _round(system, options, numbers=numbers))
            await system.stack.start_service(_SECOND)
            of_two.append(await _round(system, options, numbers=numbers))
            await system.stack.stop_service(_SECOND)
    one, two = (median(each["docs_per_s"] for each in kind) for kind in (of_one, of_two))
    return {
        "one_docs_per_s": one,
        "two_docs_per_s": two,
        "ratio": round(two / one, 2),
        "cores": os.cpu_count(),
        "rounds": {"one": of_one, "two": of_two},
    }


async def _round(system: System, options: argparse.Namespace, *, numbers: "count[int]") -> dict[str, Any]:
    await _index(system, options, documents=int(_WARM_UP_SHARE * options.docs), numbers=numbers)
    before, began = _cpu_s(system), monotonic()
    times = await _index(system, options, documents=options.docs, numbers=numbers)
    seconds = monotonic() - began
    used = {name: (spent - before[name]) / seconds for name, spent in _cpu_s(system).items()}
    first, last = int(_FROM * len(times)), int(_TO * len(times))
    return {
        "docs_per_s": round((last - first) / (times[last] - times[first]), 2),
        "docs_per_s_of_whole_round": round(len(times) / seconds, 2),
        "cores_used": round(sum(used.values()), 2),
        "by_process": {name: round(cores, 2) for name, cores in used.items() if cores >= 0.01},
    }


async def _index(system: System, options: argparse.Namespace, *, documents: int, numbers: "count[int]") -> list[float]:
    """Publish new documents; return the time at which each was indexed, in this order."""
    events = {}
    for number in (next(numbers) for _ in range(documents)):
        [text] = corpus.texts(documents=1, words=options.words, first=number)
        events[f"doc-{number}"] = system.event(f"doc-{number}", text, tag_id=TAG)
    await system.events.publish_all(list(events.values()))
    return [monotonic() async for _ in system.outcomes.iterate_indexed(events, revision=1)]


def _cpu_s(system: System) -> Mapping[str, float]:
    running = {server.name: server.pid for server in system.stack.servers if server.running}
    return cpu_s_of(running | {"benchmark": os.getpid()})


if __name__ == "__main__":
    main()
