"""`python -m benchmarks.chunking_spans.short_pages --data DIR`: are leaflets of five subjects found by each of these?

A page is the title and the beginning of a document of the data, as short as a page of a manual or a slide, and five
make a leaflet. A query asks for one of these pages, among the chunks of all leaflets, by vectors of MiniLM.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.chunking_spans.models import Embed, minilm
from benchmarks.retrieval_quality.dataset import documents_of, queries_of
from kb_shared.chunking import Chunk, ChunkerType, ChunkingConfig, PageSpan, chunk_text

_PAGES: Final = 5
_CHARACTERS: Final = 350
_CONFIG: Final = ChunkingConfig(ChunkerType.RECURSIVE, 512, 0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chunking_spans.short_pages", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=150)
    options = parser.parse_args()
    queries = queries_of(options.data, "test")[: options.queries]
    asked = {next(iter(query.relevant)): query.text for query in queries}
    pages = {
        document.doc_id: f"{document.title}\n{document.text[:_CHARACTERS].rpartition(' ')[0]}."
        for document in documents_of(options.data)
        if document.doc_id in asked
    }
    embed = minilm()
    for name, with_pages in (("pages are not told", False), ("pages are told", True)):
        print(json.dumps({"chunks": name, **_measure(pages, asked, embed, with_pages=with_pages)}))


def _measure(pages: dict[str, str], asked: dict[str, str], embed: Embed, *, with_pages: bool) -> dict[str, object]:
    chunks: list[tuple[int, Chunk]] = []
    leaflet_of: dict[str, int] = {}
    order = list(pages)
    for number, names in enumerate(order[at : at + _PAGES] for at in range(0, len(order), _PAGES)):
        text, spans = _leaflet([pages[name] for name in names])
        chunks += [(number, chunk) for chunk in chunk_text(text, _CONFIG, pages=spans if with_pages else ())]
        leaflet_of.update(dict.fromkeys(names, number))
    vectors = np.array(embed([chunk.embedded_text for _, chunk in chunks]))
    answered = [name for name in asked if name in pages]
    wanted = np.array(embed([asked[name] for name in answered]))
    ranks = []
    for name, scores in zip(answered, wanted @ vectors.T, strict=True):
        leaflets = list(dict.fromkeys(chunks[at][0] for at in np.argsort(-scores)))
        ranks.append(leaflets.index(leaflet_of[name]) + 1)
    return {
        "number": len(chunks),
        "queries": len(ranks),
        "leaflet at rank 1": round(float(np.mean([rank == 1 for rank in ranks])), 3),
        "reciprocal rank": round(float(np.mean([1 / rank for rank in ranks])), 3),
    }


def _leaflet(texts: Sequence[str]) -> tuple[str, list[PageSpan]]:
    spans, at = [], 0
    for number, text in enumerate(texts, 1):
        spans.append(PageSpan(number, at, at + len(text)))
        at += len(text) + 2
    return "\n\n".join(texts), spans


if __name__ == "__main__":
    main()
