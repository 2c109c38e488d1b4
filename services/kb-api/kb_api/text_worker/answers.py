"""Answers a request, in the worker process only: its libraries take time and memory."""

from functools import cache
from typing import Any, Final

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from kb_shared.chunking import (
    Chunk,
    ChunkerType,
    ChunkingConfig,
    PageSpan,
    VectorsWanted,
    advance,
    chunk_text,
    chunking_steps,
)

_LEAST_CONFIDENCE: Final = 0.5
"""Probability below which the language of a text is not known: numbers, tables, too few words."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the response to a request of `TextWorker`."""
    if "languages_of" in request:
        return {"languages": [_detect(text) for text in request["languages_of"]]}
    return _chunk(request)


def _chunk(request: dict[str, Any]) -> dict[str, Any]:
    config = ChunkingConfig(
        chunker_type=ChunkerType(request["chunker_type"]),
        chunk_size=request["chunk_size"],
        chunk_overlap=request["chunk_overlap"],
        text_normalization=request["text_normalization"],
    )
    pages = [PageSpan(*page) for page in request["pages"]]
    outcome = advance(
        chunking_steps(
            request["text"],
            config,
            pages=pages,
            max_chunks=request["max_chunks"],
            embedding_text=request["embedding_text"],
        )
    )
    embeddings_at_most = None
    if isinstance(outcome, VectorsWanted):
        embeddings_at_most = outcome.of_document
        # As many sentences in a chunk as fit: grouping by meaning makes at least as many chunks.
        packed = ChunkingConfig(
            ChunkerType.SENTENCE, config.chunk_size, config.chunk_overlap, config.text_normalization
        )
        outcome = chunk_text(request["text"], packed, pages=pages)
    return {"chunks": [_described(chunk) for chunk in outcome], "embeddings_at_most": embeddings_at_most}


def _described(chunk: Chunk) -> dict[str, Any]:
    return {
        "start": chunk.start,
        "end": chunk.end,
        "token_count": chunk.token_count,
        "context": chunk.context,
        "heading_path": chunk.heading_path,
        "page_start": chunk.page_start,
        "page_end": chunk.page_end,
        "chunk_type": chunk.chunk_type,
        "chunk_hash": chunk.chunk_hash,
        "embedded_bytes": len(chunk.embedded_text.encode()),
    }


def _detect(text: str) -> str | None:
    language, probability = _identifier().classify(text)
    return language if probability >= _LEAST_CONFIDENCE else None


@cache
def _identifier() -> LanguageIdentifier:
    """Load the model, which takes about a second."""
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
