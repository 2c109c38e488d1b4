"""Documents, queries, and which documents answer which query.

A folder holds `docs.jsonl` {doc_id, title, text}, `queries.jsonl` {query_id, text, lang?} and `qrels.tsv` with a
header: query_id, doc_id, relevance. Other splits are `queries.NAME.jsonl` and `qrels.NAME.tsv` beside them.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.indexed_corpus import CorpusDocument

Judgements = Mapping[str, float]
"""Relevance by document; what is not in it is irrelevant."""


@dataclass(frozen=True, slots=True)
class Query:
    query_id: str
    text: str
    group: str
    """Group that has figures of its own: the language, if the data names it."""
    relevant: Judgements


class UnusableData(Exception):
    """The folder is not what it has to be; the message says what is missing."""


def documents_of(folder: Path) -> list[CorpusDocument]:
    """Raises UnusableData."""
    return [CorpusDocument(row["doc_id"], row.get("title", ""), row["text"]) for row in _rows(folder / "docs.jsonl")]


def queries_of(folder: Path, split: str) -> list[Query]:
    """The queries of a split that have at least one relevant document.

    Raises:
        UnusableData: a file is absent or no query is judged.
    """
    infix = "" if split == "test" else f".{split}"
    judged = _judgements(folder / f"qrels{infix}.tsv")
    queries = [
        Query(row["query_id"], row["text"], row.get("lang", ""), judged[row["query_id"]])
        for row in _rows(folder / f"queries{infix}.jsonl")
        if any(relevance > 0 for relevance in judged.get(row["query_id"], {}).values())
    ]
    if not queries:
        raise UnusableData(f"no query of split '{split}' in {folder} has a relevant document")
    return queries


def evenly(queries: Sequence[Query], most: int) -> list[Query]:
    """At most so many of each group, in the order of the data."""
    taken: dict[str, int] = defaultdict(int)
    chosen = []
    for query in queries:
        if taken[query.group] < most:
            taken[query.group] += 1
            chosen.append(query)
    return chosen


def _judgements(path: Path) -> dict[str, dict[str, float]]:
    judged: dict[str, dict[str, float]] = defaultdict(dict)
    for line in _text(path).splitlines()[1:]:
        query_id, doc_id, relevance = line.split("\t")
        judged[query_id][doc_id] = float(relevance)
    return judged


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in _text(path).splitlines() if line)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UnusableData(
            f"{path} is missing; --data takes a folder with docs.jsonl, queries.jsonl, qrels.tsv"
        ) from None
