"""`python -m benchmarks.time_to_searchable`: from an event to the search that finds it, while nothing else goes on.

The time of the call to the embedding server is reported separately, because it is the provider's.
"""

import argparse
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any, Final

import httpx

from benchmarks import command
from benchmarks.indexing import corpus
from benchmarks.indexing.searchable_timer import SearchableTimer, percentiles_ms
from benchmarks.indexing.system import System, add_options, running_system

TAG: Final = "newcomers"
_CALLS: Final = 10


def main() -> None:
    parser = command.parser("time_to_searchable", __doc__)
    parser.add_argument("--docs", type=int, default=40)
    add_options(parser, words=330, dims=384)
    command.run(parser, _measure)


async def _measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    async with running_system(folder, options) as system:
        kb_id = await system.create_knowledge_base(TAG, options)
        timer = SearchableTimer(system, kb_id, tag_id=TAG, options=options)
        # The first ones find connections unmade and code not yet imported.
        await timer.measure_s(3)
        times_s = await timer.measure_s(options.docs)
        embedding_ms = 1000 * median([await _embedding_s(system, options) for _ in range(_CALLS)])
    figures = percentiles_ms(times_s)
    return {
        **figures,
        "embedding_call_ms": round(embedding_ms, 1),
        "p50_beyond_embedding_ms": round(figures["p50_ms"] - embedding_ms, 1),
    }


async def _embedding_s(system: System, options: argparse.Namespace) -> float:
    """Measure how long the server takes for the text of a document."""
    body = {
        "model": f"hash-{options.dims}",
        "input": list(corpus.texts(documents=1, words=options.words)),
        "encoding_format": "base64",
    }
    async with httpx.AsyncClient(timeout=60) as http:
        began = monotonic()
        (await http.post(f"{system.stack.models_api_base}/embeddings", json=body)).raise_for_status()
        return monotonic() - began


if __name__ == "__main__":
    main()
