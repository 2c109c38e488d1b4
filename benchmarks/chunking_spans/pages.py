"""`python -m benchmarks.chunking_spans.pages --data DIR`: pages of real OCR output through each chunker.

DIR holds `pages.jsonl` {ocr_text}. The pages become one document; of each chunk it is checked that it is what stands at
its offsets, is within its tokens and names just the pages it touches.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import fmean

from benchmarks.chunking_spans import models
from kb_shared.chunking import Chunk, ChunkerType, ChunkingConfig, PageSpan, chunk_text, count_tokens

_BETWEEN_PAGES = "\n\f"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chunking_spans.pages", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of pages.jsonl")
    parser.add_argument("--chunk-size", type=int, default=200, help="tokens")
    parser.add_argument("--chunk-overlap", type=int, default=40, help="tokens")
    options = parser.parse_args()
    file = options.data / "pages.jsonl"
    if not file.is_file():
        raise SystemExit(f"{file} is not there: nothing was measured")
    page_texts = [json.loads(line)["ocr_text"] + _BETWEEN_PAGES for line in file.read_text().splitlines()]
    figures = {
        chunker_type: _measure(page_texts, ChunkingConfig(chunker_type, options.chunk_size, options.chunk_overlap))
        for chunker_type in ChunkerType
    }
    for chunker_type, values in figures.items():
        print(json.dumps({"chunker": chunker_type, "pages": len(page_texts), **values}))


def _measure(page_texts: Sequence[str], config: ChunkingConfig) -> dict[str, float]:
    text = "".join(page_texts)
    ends = accumulate(map(len, page_texts), initial=0)
    pages = [PageSpan(number, start, end) for number, (start, end) in enumerate(pairwise(ends), 1)]
    chunks = chunk_text(text, config, pages=pages, embed=models.words(page_texts))
    return {
        "chunks": len(chunks),
        "tokens_a_chunk": round(fmean(chunk.token_count for chunk in chunks), 1),
        "over_a_page_end": sum(chunk.page_start != chunk.page_end for chunk in chunks),
        "wrong": sum(not _is_right(chunk, text, pages, config) for chunk in chunks),
        "lost_code_points": _lost(chunks, text),
    }


def _is_right(chunk: Chunk, text: str, pages: Sequence[PageSpan], config: ChunkingConfig) -> bool:
    touched = [page.page for page in pages if page.start < chunk.end and chunk.start < page.end]
    return (
        text[chunk.start : chunk.end] == chunk.text
        and count_tokens(chunk.text) == chunk.token_count <= config.own_tokens
        and count_tokens(chunk.context + chunk.text) <= config.chunk_size
        and (chunk.page_start, chunk.page_end) == (touched[0], touched[-1])
    )


def _lost(chunks: Sequence[Chunk], text: str) -> int:
    starts = [*(chunk.start for chunk in chunks), len(text)]
    ends = [0, *(chunk.end for chunk in chunks)]
    return sum(len("".join(text[end:start].split())) for end, start in zip(ends, starts, strict=True))


if __name__ == "__main__":
    main()
