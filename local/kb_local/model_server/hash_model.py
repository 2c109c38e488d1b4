"""A model for tests: `hash-<dimensions>` turns a text's SHA-256 into a unit vector, the same on every machine."""

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from kb_local.model_server.openai_api import EmbeddingResult, Vector

MAX_DIMENSIONS = 8192

_NAME = re.compile(r"hash-([1-9]\d{0,3})")


def dimensions_of(model: str) -> int | None:
    """Return the dimensions a model name asks for, or None if it is not the name of a hash model."""
    match = _NAME.fullmatch(model)
    dimensions = int(match[1]) if match else None
    return dimensions if dimensions is not None and dimensions <= MAX_DIMENSIONS else None


def text_sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def vector_of(text: str, *, dimensions: int) -> Vector:
    """Return the text's unit vector; unrelated texts have a cosine near zero (spread 1 / sqrt(dimensions))."""
    # An extendable hash is as fast as a random generator and, unlike it, never changes with a numpy release.
    stream = hashlib.shake_256(hashlib.sha256(text.encode()).digest()).digest(2 * dimensions)
    # Odd numbers from -65535 to 65535: no component is zero, so neither is the length.
    components = np.frombuffer(stream, dtype="<u2").astype(np.float32) * 2 - 65535
    unit: Vector = components / np.linalg.norm(components)
    return unit


def embed(texts: Sequence[str], *, dimensions: int) -> EmbeddingResult:
    """Return a vector per text; a token is a word between white space, at least one a text."""
    return EmbeddingResult(
        [vector_of(text, dimensions=dimensions) for text in texts],
        prompt_tokens=sum(max(1, len(text.split())) for text in texts),
    )
