"""Checks and decodes the answers of embedding providers.

A provider may answer out of order, leave inputs out, or send vectors that no search can use, all without an HTTP error.
"""

import binascii
from collections.abc import Sequence
from typing import Any

import numpy as np
import pybase64
from numpy.typing import NDArray

from kb_shared.embedding.models import MAX_DIMENSIONS
from kb_shared.mongo.vector import Vector


class BadAnswer(Exception):
    """The answer is not one usable vector per text; `str()` says how, quoting nothing of it."""


class TooManyDimensions(Exception):
    """The vectors have more dimensions than an index takes; `str()` says how many."""


def vectors_of(entries: Any, *, count: int, dimensions: int | None) -> list[Vector]:
    """Return one vector per text, in the order of the texts.

    Args:
        entries: `data` of an OpenAI answer: objects with `index` and `embedding`, base64 of float32 or numbers.
        count: of the texts.
        dimensions: that each vector must have; None: as many as the first has.

    Raises:
        BadAnswer: a text has no vector or two, or a vector is of another size, not finite, or zero.
        TooManyDimensions: more than `MAX_DIMENSIONS`.
    """
    vectors = [_decoded(entry) for entry in _in_order_of_the_texts(entries, count)]
    wanted = len(vectors[0]) if dimensions is None else dimensions
    for vector in vectors:
        if vector.ndim != 1 or not len(vector) == wanted > 0:
            raise BadAnswer(f"a vector of shape {vector.shape} where {wanted} dimensions were expected")
    if wanted > MAX_DIMENSIONS:
        raise TooManyDimensions(f"vectors of {wanted} dimensions, and no more than {MAX_DIMENSIONS} can be searched")
    _check_values(np.stack(vectors))
    return vectors


def _in_order_of_the_texts(entries: Any, count: int) -> Sequence[Any]:
    try:
        by_index = {entry["index"]: entry["embedding"] for entry in entries}
        given = len(entries)
    except (TypeError, KeyError):
        raise BadAnswer("the answer is not a list of embeddings") from None
    if given != count or set(by_index) != set(range(count)):
        raise BadAnswer(f"{given} vectors for {count} texts, or not one for each")
    return [by_index[index] for index in range(count)]


def _decoded(embedding: Any) -> Vector:
    try:
        if isinstance(embedding, str):
            return np.frombuffer(pybase64.b64decode(embedding, validate=True), dtype="<f4")
        # Doubles beyond float32 become infinite, which is refused below.
        with np.errstate(over="ignore"):
            return np.asarray(embedding, dtype=np.float32)
    except (binascii.Error, ValueError, TypeError):
        raise BadAnswer("a vector could not be read") from None


def _check_values(matrix: NDArray[np.float32]) -> None:
    """Check all vectors of an answer at once: one by one takes ten times as long."""
    # In doubles: the squares of large float32 components overflow.
    squares = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)
    if not np.isfinite(squares).all():
        raise BadAnswer("a vector with components that are not finite")
    if not (squares > 0).all():
        raise BadAnswer("a vector of length zero")
