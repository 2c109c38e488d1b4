"""`python -m benchmarks.retrieval_quality.weights --data DIR`: which weights of fusion serve which shape of query.

Both legs are asked once; every pair of weights is then tried on what they answered. Use queries that no figure is given
for: the split `train`, and every other identifier found in the documents.
"""

import argparse
import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.indexed_corpus import Document, KnowledgeBase, folder_for, indexed
from benchmarks.retrieval_quality import dataset
from benchmarks.retrieval_quality.dataset import Query, UnusableData
from benchmarks.retrieval_quality.identifiers import identifier_queries
from benchmarks.retrieval_quality.measures import measure
from kb_search.fusion import Weights, fuse, shape_of

VECTOR_WEIGHTS = (0.0, 0.01, 0.1, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0, 1.01, 1.05, 1.1, 1.25, 1.5, 2.0)
"""Beside 1 for the text leg: only their ratio counts."""
DEPTH = 100
PAGE = 20


@dataclass(frozen=True, slots=True)
class Legs:
    """What each leg answered: scores by chunk, and whose chunk that is."""

    query: Query
    vector: Mapping[str, float]
    text: Mapping[str, float]
    document_of: Mapping[str, str]

    def ndcg(self, weights: Weights) -> float:
        fused = fuse(self.vector, self.text, weights)
        ranking = dict.fromkeys(self.document_of[candidate.chunk_id] for candidate in fused)
        return measure(list(ranking), self.query.relevant).ndcg_at_10


def main() -> None:
    options = _options()
    try:
        documents = dataset.documents_of(options.data)
        queries = dataset.queries_of(options.data, options.split)
    except UnusableData as error:
        raise SystemExit(str(error)) from None
    queries += identifier_queries(documents, 2 * options.identifiers)[::2]
    with folder_for(options.keep) as folder:
        legs = asyncio.run(_ask_all(folder, documents, queries, options))
    figures = {shape: _try_weights(asked) for shape, asked in sorted(_by_shape(legs).items())}
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for shape, figure in figures.items():
        print(f"{shape}, {figure['queries']} queries: best with a vector weight of {figure['best']}")
        print("  " + "  ".join(f"{weight}: {ndcg:.4f}" for weight, ndcg in figure["ndcg_at_10"].items()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval_quality.weights", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of docs.jsonl, queries and qrels")
    parser.add_argument("--split", default="train")
    parser.add_argument("--identifiers", type=int, default=200, help="so many identifiers as queries")
    parser.add_argument("--chunk-size", type=int, default=2_000, help="tokens")
    parser.add_argument("--text-analyzer", default="lucene.english")
    parser.add_argument("--keep", type=Path, help="folder that keeps what was indexed, for the next run over the same")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


async def _ask_all(
    folder: Path, documents: Sequence[Document], queries: Sequence[Query], options: argparse.Namespace
) -> list[Legs]:
    settings = {"chunk_size": options.chunk_size, "chunk_overlap": 0, "text_analyzer": options.text_analyzer}
    turns = asyncio.Semaphore(4)
    async with indexed(folder, documents, ("vector", "text"), **settings) as kb:

        async def ask(query: Query) -> Legs:
            async with turns:
                vector, text = await _leg(kb, query, "vector"), await _leg(kb, query, "text")
            hits = [*vector, *text]
            return Legs(
                query,
                {hit["citation"]: hit["scores"]["vector"] for hit in vector},
                {hit["citation"]: hit["scores"]["text"] for hit in text},
                {hit["citation"]: hit["document_id"] for hit in hits},
            )

        print(f"{len(queries)} queries", file=sys.stderr)
        return await asyncio.gather(*map(ask, queries))


async def _leg(kb: KnowledgeBase, query: Query, mode: str) -> list[dict[str, Any]]:
    pages = [
        await kb.search(query.text, mode=mode, top_k=PAGE, skip=skip, coalesce_neighbors=0)
        for skip in range(0, DEPTH, PAGE)
    ]
    return [hit for page in pages for hit in page]


def _by_shape(legs: Sequence[Legs]) -> Mapping[str, list[Legs]]:
    shapes: dict[str, list[Legs]] = defaultdict(list)
    for asked in legs:
        shapes[shape_of(asked.query.text)].append(asked)
    return shapes


def _try_weights(legs: Sequence[Legs]) -> dict[str, Any]:
    ndcg = {
        weight: round(fmean(asked.ndcg(Weights(vector=weight, text=1.0)) for asked in legs), 4)
        for weight in VECTOR_WEIGHTS
    }
    return {"queries": len(legs), "best": max(ndcg, key=lambda weight: ndcg[weight]), "ndcg_at_10": ndcg}


if __name__ == "__main__":
    main()
