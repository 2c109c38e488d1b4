"""Every chunker without a model: vectors come from the bytes of a text, so that groups are arbitrary yet the same."""

import hashlib
from collections.abc import Sequence

import numpy as np

from kb_shared.chunking import Chunk, ChunkingConfig, PageSpan, chunk_text
from kb_shared.mongo.vector import Vector


def chunked(text: str, config: ChunkingConfig, *, pages: Sequence[PageSpan] = ()) -> list[Chunk]:
    return chunk_text(text, config, pages=pages, embed=arbitrary_vectors)


def arbitrary_vectors(texts: Sequence[str]) -> list[Vector]:
    return [_arbitrary_vector(text) for text in texts]


def _arbitrary_vector(text: str) -> Vector:
    digest = hashlib.sha256(text.encode()).digest()
    return np.frombuffer(digest, dtype=np.uint8)[:8].astype(np.float32) - np.float32(127.5)
