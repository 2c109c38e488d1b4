"""Checks and decodes the answers of embedding providers.

A provider may answer out of order, leave inputs out, or send vectors that no search can use, all without an HTTP error.
"""

import binascii
from collections.abc import Mapping, Sequence
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
        entries: `data` of an OpenAI answer: objects with `index` and `embedding`, base64 of float32 or numbers. If
            none has an index, or all have the same, they are in the order of the texts; so is a list of vectors. Some
            servers count from 1, or leave the index 0 out.
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
    if not isinstance(entries, list):
        raise BadAnswer("the answer is not a list of embeddings")
    if len(entries) != count:
        raise BadAnswer(f"{len(entries)} vectors for {count} texts")
    indexes = [_index(entry) for entry in entries]
    if indexes.count(None) == 1 and 0 not in indexes:
        # Servers that are built on protocol buffers leave out a field that is 0.
        indexes[indexes.index(None)] = 0
    embeddings = [_embedding(entry) for entry in entries]
    if len(set(indexes)) == 1:
        # A server that does not number them, or all alike, keeps their order.
        return embeddings
    by_index = dict(zip(indexes, embeddings, strict=True))
    for first in (0, 1):
        if by_index.keys() == set(range(first, first + count)):
            return [by_index[index] for index in range(first, first + count)]
    raise BadAnswer(f"{count} vectors for {count} texts, but not one for each")


def _index(entry: Any) -> int | None:
    index = entry.get("index") if isinstance(entry, Mapping) else None
    if isinstance(index, str) and index.isdecimal():
        index = int(index[:9])
    if isinstance(index, float) and index.is_integer():
        return int(index)
    return index if isinstance(index, int) else None


def _embedding(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    if "embedding" not in entry:
        raise BadAnswer("the answer is not a list of embeddings")
    return entry["embedding"]


def _decoded(embedding: Any) -> Vector:
    try:
        if isinstance(embedding, str):
            return np.frombuffer(
                pybase64.b64decode(embedding + "=" * (-len(embedding) % 4), validate=True), dtype="<f4"
            )
        # Doubles beyond float32 become infinite, which is refused below.
        with np.errstate(over="ignore"):
            vector = np.asarray(embedding, dtype=np.float32)
    except (binascii.Error, ValueError, TypeError):
        raise BadAnswer("a vector could not be read") from None
    # Servers that give a vector for each token, too, put that of a text into a list.
    return vector[0] if vector.ndim == 2 and len(vector) == 1 else vector


def _check_values(matrix: NDArray[np.float32]) -> None:
    """Check all vectors of an answer at once: one by one takes ten times as long."""
    # In doubles: the squares of large float32 components overflow.
    squares = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)
    if not np.isfinite(squares).all():
        raise BadAnswer("a vector with components that are not finite")
    if not (squares > 0).all():
        raise BadAnswer("a vector of length zero")
