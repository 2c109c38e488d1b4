"""`python -m benchmarks.retrieval_quality --data DIR`: how good the answers are, through the whole pipeline.

DIR holds `docs.jsonl` {doc_id, title, text}, `queries.jsonl` {query_id, text} and `qrels.tsv` (query_id, doc_id and
relevance, with a header). Documents come in as events, searches go over HTTP, and each document stands where its best
chunk does.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.indexed_corpus import CorpusDocument, CorpusKnowledgeBase, folder_for, indexed
from benchmarks.retrieval_quality import dataset, outcome
from benchmarks.retrieval_quality.dataset import Query, UnusableData
from benchmarks.retrieval_quality.identifiers import identifier_queries
from benchmarks.retrieval_quality.outcome import QueryOutcome, outcome_of
from benchmarks.retrieval_quality.ranking import rank

MODES = ("vector", "text", "hybrid")


def main() -> None:
    options = _options()
    try:
        documents, queries = _data(options)
    except UnusableData as error:
        raise SystemExit(str(error)) from None
    with folder_for(options.keep) as folder:
        figures = asyncio.run(_run(folder, documents, queries, options))
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name}: {value}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval_quality", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of docs.jsonl, queries.jsonl and qrels.tsv")
    parser.add_argument("--split", default="test", help="`train` reads queries.train.jsonl and qrels.train.tsv")
    parser.add_argument(
        "--identifiers", type=int, help="ask for so many codes and numbers found in the documents instead"
    )
    parser.add_argument("--queries", type=int, help="at most so many a language")
    parser.add_argument("--mode", choices=[*MODES, "all"], default="hybrid", help="all: one after the other")
    parser.add_argument("--chunk-size", type=int, help="tokens; 2000 makes one chunk of most abstracts")
    parser.add_argument("--embedding-model", help="of the knowledge base, such as use-multilingual-v3")
    parser.add_argument("--text-analyzer", help="of the knowledge base, such as lucene.english")
    parser.add_argument(
        "--concurrency", type=int, nargs="+", default=[4], help="searches at a time; of several all must rank alike"
    )
    parser.add_argument("--keep", type=Path, help="folder that keeps what was indexed, for the next run over the same")
    parser.add_argument("--per-query", type=Path, help="folder for a file a mode, which `.compare` reads")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _data(options: argparse.Namespace) -> tuple[list[CorpusDocument], list[Query]]:
    documents = dataset.documents_of(options.data)
    if options.identifiers:
        return documents, identifier_queries(documents, options.identifiers)
    queries = dataset.queries_of(options.data, options.split)
    return documents, dataset.evenly(queries, options.queries) if options.queries else queries


async def _run(
    folder: Path, documents: Sequence[CorpusDocument], queries: Sequence[Query], options: argparse.Namespace
) -> dict[str, Any]:
    modes = MODES if options.mode == "all" else (options.mode,)
    choices = ("chunk_size", "embedding_model", "text_analyzer")
    given = {name: getattr(options, name) for name in choices if getattr(options, name)}
    # An overlap repeats what a document of one chunk has none of, and must be less than the size.
    settings = {**given, "chunk_overlap": 0} if "chunk_size" in given else given
    began = perf_counter()
    async with indexed(folder, documents, modes, **settings) as kb:
        indexing_s = perf_counter() - began
        by_mode = {mode: await _measure_mode(kb, queries, mode, options) for mode in modes}
        chunks = (await kb.view())["chunk_count"]
    figures = {mode: _figures(outcomes) for mode, outcomes in by_mode.items()}
    return {
        "options": {name: str(value) for name, value in vars(options).items() if name != "json" and value is not None},
        "documents": len(documents),
        "chunks": chunks - 1,
        "queries": len(queries),
        "indexing_s": round(indexing_s, 1),
        **(figures if options.mode == "all" else figures[options.mode]),
    }


async def _measure_mode(
    kb: CorpusKnowledgeBase, queries: Sequence[Query], mode: str, options: argparse.Namespace
) -> list[QueryOutcome]:
    rankings = [await _rank_all(kb, queries, mode, at_a_time) for at_a_time in options.concurrency]
    for at_a_time, ranking in zip(options.concurrency, rankings, strict=True):
        if different := sum(one != other for one, other in zip(rankings[0], ranking, strict=True)):
            raise SystemExit(f"{mode}: {different} queries rank otherwise with {at_a_time} searches at a time")
    outcomes = [outcome_of(query, ranking) for query, ranking in zip(queries, rankings[0], strict=True)]
    if options.per_query:
        outcome.write(options.per_query / f"{mode}.jsonl", outcomes)
    return outcomes


async def _rank_all(kb: CorpusKnowledgeBase, queries: Sequence[Query], mode: str, at_a_time: int) -> list[list[str]]:
    turns = asyncio.Semaphore(at_a_time)

    async def take_turn(query: Query) -> list[str]:
        async with turns:
            return await rank(kb, query.text, mode)

    print(f"{mode}: {len(queries)} queries, {at_a_time} at a time", file=sys.stderr)
    return await asyncio.gather(*map(take_turn, queries))


def _figures(outcomes: Sequence[QueryOutcome]) -> dict[str, Any]:
    by_group = outcome.means_by_group(outcomes)
    return outcome.means(outcomes) | ({"by_language": by_group} if by_group else {})


if __name__ == "__main__":
    main()
