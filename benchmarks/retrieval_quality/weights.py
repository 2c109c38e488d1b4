"""`python -m benchmarks.retrieval_quality.weights --data DIR`: which weights of fusion serve which shape of query.

Both legs are asked once; every pair of weights, and every share of support, is then tried on what they answered. Use
queries that no figure is given for: the split `train`, and every other identifier found in the documents. Weights of
the legs are chosen with one chunk a document, where there is no support; the share of it with `--chunk-size 0`.
"""

import argparse
import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from pymongo import AsyncMongoClient

from benchmarks.indexed_corpus import CorpusDocument, CorpusKnowledgeBase, folder_for, indexed
from benchmarks.retrieval_quality import dataset
from benchmarks.retrieval_quality.dataset import Query, UnusableData
from benchmarks.retrieval_quality.identifiers import identifier_queries
from benchmarks.retrieval_quality.measures import measure
from kb_search.retrieval.fusion import WEIGHTS, QueryShape, Weights, classify_query, fuse
from kb_search.retrieval.query import SearchQuery
from kb_shared.mongo import index_queries, knowledge_bases, vectors
from kb_shared.mongo.database import Row
from kb_shared.mongo.keys import KnowledgeBaseKey
from kb_shared.mongo.vectors import document_of

VECTOR_WEIGHTS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 1.2, 1.5, 1.8, 2.0, 2.3, 2.6, 3.0, 4.0)
"""Beside 1 for the text leg: only their ratio counts."""
SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5)
"""Weights of the support by other chunks of a document that are compared."""
DEPTH = 100
PAGE = 20


@dataclass(frozen=True, slots=True)
class Legs:
    """Scores of each leg, by chunk."""

    query: Query
    vector: Mapping[str, float]
    text: Mapping[str, float]

    def ndcg(self, weights: Weights, *, by_words_alone: bool = False) -> float:
        fused = fuse({} if by_words_alone else self.vector, self.text, weights)
        ranking = dict.fromkeys(document_of(candidate.chunk_id) for candidate in fused)
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
    figures = {
        shape: _try_weights(asked, WEIGHTS[shape]) | {"support": _try_support(asked, WEIGHTS[shape])}
        for shape, asked in sorted(_by_shape(legs).items())
    }
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for shape, figure in figures.items():
        print(f"{shape}, {figure['queries']} queries: best with a vector weight of {figure['best']}")
        print(_row(figure["ndcg_at_10"]))
        for mode, by_share in figure["support"].items():
            print(f"{shape}, {mode}: by the share of support")
            print(_row(by_share))


def _row(by_value: Mapping[float, float]) -> str:
    return "  " + "  ".join(f"{value}: {ndcg:.4f}" for value, ndcg in by_value.items())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval_quality.weights", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of docs.jsonl, queries and qrels")
    parser.add_argument("--split", default="train")
    parser.add_argument("--identifiers", type=int, default=200, help="so many identifiers as queries")
    parser.add_argument("--chunk-size", type=int, default=2_000, help="tokens; 0: the default chunks")
    parser.add_argument("--text-analyzer", default="lucene.english")
    parser.add_argument("--keep", type=Path, help="folder that keeps what was indexed, for the next run over the same")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


async def _ask_all(
    folder: Path, documents: Sequence[CorpusDocument], queries: Sequence[Query], options: argparse.Namespace
) -> list[Legs]:
    one_chunk = {"chunk_size": options.chunk_size, "chunk_overlap": 0} if options.chunk_size else {}
    turns = asyncio.Semaphore(4)
    async with (
        indexed(folder, documents, ("vector", "text"), **one_chunk, text_analyzer=options.text_analyzer) as kb,
        _client_of(kb) as client,
    ):
        database = client[kb.stack.database]
        found = await knowledge_bases.get(database, KnowledgeBaseKey(kb.stack.organization_id, kb.kb_id))
        chunks = vectors.chunks_of(database, found)

        async def ask(query: Query) -> Legs:
            async with turns:
                # From the index itself: a search puts them into the order that they have with their support.
                words = SearchQuery(query.text).words_for_index(found.text_normalization)
                text = await index_queries.query_text_index(chunks, words, limit=DEPTH, filters=[])
                return Legs(query, await _nearest(kb, query), text)

        print(f"{len(queries)} queries", file=sys.stderr)
        return await asyncio.gather(*map(ask, queries))


def _client_of(kb: CorpusKnowledgeBase) -> AsyncMongoClient[Row]:
    return AsyncMongoClient(kb.stack.mongo_uri, tz_aware=True)


async def _nearest(kb: CorpusKnowledgeBase, query: Query) -> dict[str, float]:
    pages = [
        await kb.search(query.text, mode="vector", top_k=PAGE, skip=skip, coalesce_neighbors=0)
        for skip in range(0, DEPTH, PAGE)
    ]
    return {hit["citation"]: hit["scores"]["vector"] for page in pages for hit in page}


def _by_shape(legs: Sequence[Legs]) -> Mapping[QueryShape, list[Legs]]:
    shapes: dict[QueryShape, list[Legs]] = defaultdict(list)
    for asked in legs:
        shapes[classify_query(asked.query.text)].append(asked)
    return shapes


def _try_weights(legs: Sequence[Legs], chosen: Weights) -> dict[str, Any]:
    ndcg = {weight: _mean(asked.ndcg(replace(chosen, vector=weight)) for asked in legs) for weight in VECTOR_WEIGHTS}
    return {"queries": len(legs), "best": max(ndcg, key=lambda weight: ndcg[weight]), "ndcg_at_10": ndcg}


def _try_support(legs: Sequence[Legs], chosen: Weights) -> dict[str, dict[float, float]]:
    """By mode."""
    tried = {share: replace(chosen, support=share) for share in SHARES}
    return {
        "text": {
            share: _mean(asked.ndcg(each, by_words_alone=True) for asked in legs) for share, each in tried.items()
        },
        "hybrid": {share: _mean(asked.ndcg(each) for asked in legs) for share, each in tried.items()},
    }


def _mean(figures: Iterable[float]) -> float:
    return round(fmean(figures), 4)


if __name__ == "__main__":
    main()
