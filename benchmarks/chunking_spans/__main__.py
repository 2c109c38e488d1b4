"""`python -m benchmarks.chunking_spans --data DIR`: what each chunker's chunks are worth to who asks a question.

DIR holds `docs.jsonl` {doc_id, text} and `questions.jsonl` {text, doc_id, spans: [{start_index, end_index}]}. For each
question the chunks nearest to it are compared, in tokens, with the passages that answer it.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.chunking_spans import models
from benchmarks.chunking_spans.measures import Interval, Match, match
from benchmarks.chunking_spans.models import Embed
from kb_shared.chunking import Chunk, ChunkerType, ChunkingConfig, chunk_text
from kb_shared.chunking.counted_text import CountedText
from kb_shared.mongo.vector import Vector


@dataclass(frozen=True, slots=True)
class SpanQuestion:
    text: str
    doc_id: str
    passages: list[Interval]


def main() -> None:
    options = _options()
    texts, questions = _data(options.data, options.doc)
    model = models.minilm() if options.model == "minilm" else models.words(list(texts.values()))
    embed = models.remembering(model)
    asked = _unit(embed([question.text for question in questions]))
    counted = {doc_id: CountedText(text) for doc_id, text in texts.items()}
    figures = {}
    for chunker_type in options.chunkers:
        config = ChunkingConfig(ChunkerType(chunker_type), options.chunk_size, options.chunk_overlap)
        figures[chunker_type] = _measure(counted, questions, asked, config, embed, top=options.top)
    if options.json:
        settings = {name: value for name, value in vars(options).items() if name not in ("json", "data")}
        print(json.dumps({"options": settings, "questions": len(questions), "chunkers": figures}, indent=2))
        return
    columns = list(next(iter(figures.values())))
    print("| chunker | " + " | ".join(columns) + " |\n|---" + "|---" * len(columns) + "|")
    for chunker_type, values in figures.items():
        print(f"| {chunker_type} | " + " | ".join(str(values[column]) for column in columns) + " |")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chunking_spans", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of docs.jsonl and questions.jsonl")
    parser.add_argument("--doc", action="append", help="only this document; may be repeated")
    # Late chunks are cut as recursive ones are; their vectors take a model of their own.
    chunkers = [chunker for chunker in ChunkerType if chunker is not ChunkerType.LATE]
    parser.add_argument("--chunkers", nargs="+", default=chunkers, choices=chunkers)
    parser.add_argument("--chunk-size", type=int, default=200, help="tokens")
    parser.add_argument("--chunk-overlap", type=int, default=0, help="tokens")
    parser.add_argument("--top", type=int, default=5, help="chunks found for a question")
    parser.add_argument("--model", choices=["words", "minilm"], default="words")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _data(folder: Path, only: Sequence[str] | None) -> tuple[dict[str, str], list[SpanQuestion]]:
    if not folder.is_dir():
        raise SystemExit(f"{folder} is not there: nothing was measured")
    texts = {row["doc_id"]: row["text"] for row in _rows(folder / "docs.jsonl") if not only or row["doc_id"] in only}
    questions = [
        SpanQuestion(row["text"], row["doc_id"], [(span["start_index"], span["end_index"]) for span in row["spans"]])
        for row in _rows(folder / "questions.jsonl")
        if row["doc_id"] in texts
    ]
    return texts, questions


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def _measure(
    counted: Mapping[str, CountedText],
    questions: Sequence[SpanQuestion],
    asked: Vector,
    config: ChunkingConfig,
    embed: Embed,
    *,
    top: int,
) -> dict[str, float]:
    began = time.process_time()
    chunks = [
        (doc_id, chunk) for doc_id, text in counted.items() for chunk in chunk_text(text.text, config, embed=embed)
    ]
    cpu_s = time.process_time() - began
    nearest = np.argsort(-(asked @ _unit(embed([chunk.embedded_text for _, chunk in chunks])).T), axis=1)[:, :top]
    found = [
        _compare(counted, question, [chunks[position] for position in positions])
        for question, positions in zip(questions, nearest, strict=True)
    ]
    ideal = [
        _compare(counted, question, [each for each in chunks if _holds_some(each, question)]) for question in questions
    ]
    return {
        "chunks": len(chunks),
        "tokens_a_chunk": round(fmean(chunk.token_count for _, chunk in chunks), 1),
        "whole_passages": round(fmean(_wholly(chunks, question) for question in questions), 3),
        "recall": round(fmean(each.recall for each in found), 3),
        "precision": round(fmean(each.precision for each in found), 3),
        "iou": round(fmean(each.intersection_over_union for each in found), 3),
        "precision_if_all_is_found": round(fmean(each.precision for each in ideal), 3),
        "cpu_s": round(cpu_s, 1),
    }


def _compare(counted: Mapping[str, CountedText], question: SpanQuestion, found: Sequence[tuple[str, Chunk]]) -> Match:
    here = [(chunk.start, chunk.end) for doc_id, chunk in found if doc_id == question.doc_id]
    elsewhere = sum(chunk.token_count for doc_id, chunk in found if doc_id != question.doc_id)
    return match(counted[question.doc_id], question.passages, here, elsewhere=elsewhere)


def _holds_some(chunk: tuple[str, Chunk], question: SpanQuestion) -> bool:
    doc_id, of = chunk
    return doc_id == question.doc_id and any(of.start < end and start < of.end for start, end in question.passages)


def _wholly(chunks: Sequence[tuple[str, Chunk]], question: SpanQuestion) -> float:
    """Return the share of the passages that are in one chunk each."""
    mine = [chunk for doc_id, chunk in chunks if doc_id == question.doc_id]
    return fmean(any(chunk.start <= start and end <= chunk.end for chunk in mine) for start, end in question.passages)


def _unit(vectors: Sequence[Vector]) -> Vector:
    matrix = np.array(vectors)
    unit: Vector = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return unit


if __name__ == "__main__":
    main()
