"""`python -m benchmarks.index_spread`: documents of one KB, and as many of many KBs.

What a KB's documents all write (its fences and counters) must not hold them up. Rounds of either kind take turns, so
that what else the machine does meets both; the rate reported is that of the median round.
"""

import argparse
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import command
from benchmarks.indexing import corpus
from benchmarks.indexing.passes import run_pass
from benchmarks.indexing.system import System, add_options, running_system


def main() -> None:
    parser = command.parser("index_spread", __doc__)
    parser.add_argument("--docs", type=int, default=200, help="a round")
    parser.add_argument("--kbs", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3, help="of either kind")
    add_options(parser)
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    async with running_system(folder, options) as system:
        one = {"one": await system.create_knowledge_base("one", options)}
        many = {tag: await system.create_knowledge_base(tag, options) for tag in _tags(options.kbs)}
        numbers = count()
        rounds: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for _ in range(options.rounds):
            rounds.append(  # noqa: PERF401  # one after the other
                (
                    await _round(system, options, one, number=next(numbers)),
                    await _round(system, options, many, number=next(numbers)),
                )
            )
    of_one, of_many = (median(each["docs_per_s"] for each in kind) for kind in zip(*rounds, strict=True))
    return {
        "one_kb_docs_per_s": of_one,
        "many_kbs_docs_per_s": of_many,
        "share": round(of_one / of_many, 3),
        "rounds": [{"one_kb": first, "many_kbs": second} for first, second in rounds],
    }


def _tags(kbs: int) -> list[str]:
    return [f"many-{number}" for number in range(kbs)]


async def _round(
    system: System, options: argparse.Namespace, kb_of_tag: dict[str, str], *, number: int
) -> dict[str, Any]:
    tags = list(kb_of_tag)
    first = number * options.docs
    texts = corpus.texts(documents=options.docs, words=options.words, first=first)
    events = [
        system.event(f"doc-{number}", text, tag_id=tags[number % len(tags)]) for number, text in enumerate(texts, first)
    ]
    figures = await run_pass(system, events, kb_of_tag=kb_of_tag)
    return {name: figures[name] for name in ("docs_per_s", "indexer_cpu_s", "cpu_ms_per_doc", "mongo_commands_per_doc")}


if __name__ == "__main__":
    main()
