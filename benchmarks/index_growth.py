"""`python -m benchmarks.index_growth`: whether a document costs the same in a small KB and in a large one.

A KB grows to `--docs` documents, a step at a time; each step tells what its documents took. Flat means that the last
step's figures are those of the first.
"""

import argparse
from pathlib import Path
from typing import Any, Final

from benchmarks import command
from benchmarks.indexing import corpus
from benchmarks.indexing.passes import run_pass
from benchmarks.indexing.system import System, add_options, running_system

TAG: Final = "growing"
_REPORTED_FIGURES: Final = (
    "docs_per_s",
    "cpu_ms_per_doc",
    "indexer_cpu_s",
    "cpu_s",
    "mongo_commands_per_doc",
    "mongo_docs_examined_per_chunk",
)


def main() -> None:
    parser = command.parser("index_growth", __doc__)
    parser.add_argument("--docs", type=int, default=10_000, help="in the end")
    parser.add_argument("--step", type=int, default=1_000, help="documents")
    add_options(parser, words=330, dims=384)
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    async with running_system(folder, options) as system:
        kb_id = await system.create_knowledge_base(TAG, options)
        steps = [await _grow(system, kb_id, options, first=first) for first in range(0, options.docs, options.step)]
    return {"steps": steps, "last_against_first": _ratios(steps[0], steps[-1])}


async def _grow(system: System, kb_id: str, options: argparse.Namespace, *, first: int) -> dict[str, Any]:
    texts = corpus.texts(documents=options.step, words=options.words, first=first)
    events = [system.event(f"doc-{number}", text, tag_id=TAG) for number, text in enumerate(texts, first)]
    figures = await run_pass(system, events, kb_of_tag={TAG: kb_id})
    return {"docs": first + options.step, **{name: figures[name] for name in _REPORTED_FIGURES}}


def _ratios(first: dict[str, Any], last: dict[str, Any]) -> dict[str, float]:
    names = ("docs_per_s", "cpu_ms_per_doc", "indexer_cpu_s", "mongo_commands_per_doc")
    return {name: round(last[name] / first[name], 3) for name in names}


if __name__ == "__main__":
    main()
