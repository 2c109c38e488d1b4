"""`python -m benchmarks.index_throughput`: how fast events become searchable, what that costs, and what is possible.

Documents are published, indexed, and found; then all of them once more, in a new revision with the same text.
`raw_limit` is what the same machine does in the same run when it does nothing but what any design must: generate each
vector, and insert it into the cache and into its chunk's row (see `raw_limit.py`). `machine_loop_s` shows how fast a
core was: 20 million turns of an empty loop, before the first pass and after the second.
"""

import argparse
from pathlib import Path
from typing import Any

from benchmarks import command
from benchmarks.index_throughput import raw_limit
from benchmarks.indexing import corpus
from benchmarks.indexing.passes import run_pass
from benchmarks.indexing.system import add_options, running_system
from benchmarks.machine import loop_s

TAG = "benchmark"


def main() -> None:
    parser = command.parser("index_throughput", __doc__)
    parser.add_argument("--docs", type=int, default=200)
    add_options(parser)
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    texts = list(corpus.texts(documents=options.docs, words=options.words))
    async with running_system(folder, options) as system:
        kb_id = await system.create_knowledge_base(TAG, options)

        async def index(revision: int) -> dict[str, Any]:
            events = [
                system.event(f"doc-{number}", text, tag_id=TAG, revision=revision) for number, text in enumerate(texts)
            ]
            return await run_pass(system, events, kb_of_tag={TAG: kb_id})

        loop_before_s = loop_s()
        first = await index(1)
        second = await index(2)
        loop_after_s = loop_s()
        chunks = system.mongod[system.stack.database]
        size = (await chunks.command("collStats", f"kb_vectors_{kb_id}"))["avgObjSize"]
        limit = await raw_limit.measure(system, kb_id, model=f"hash-{options.dims}")
    return {
        **first,
        "machine_loop_s": {"before": loop_before_s, "after": loop_after_s},
        "avg_obj_size": size,
        "unchanged": second,
        "unchanged_speedup": round(first["seconds"] / second["seconds"], 1),
        "raw_limit": limit | {"share_reached": round(first["docs_per_s"] / limit["docs_per_s"], 3)},
    }


if __name__ == "__main__":
    main()
