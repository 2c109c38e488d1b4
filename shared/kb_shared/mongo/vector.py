"""Vectors in this process and as MongoDB keeps them."""

import numpy as np
from bson.binary import Binary, BinaryVectorDtype
from numpy.typing import NDArray

Vector = NDArray[np.float32]

_HEAD = bytes([BinaryVectorDtype.FLOAT32.value[0], 0])


def to_binary(vector: Vector) -> Binary:
    """Encode as BSON vector of float32: two bytes of header, then the numbers, little-endian."""
    return Binary(_HEAD + vector.astype("<f4", copy=False).tobytes(), 9)


def from_binary(binary: bytes) -> Vector:
    """Decode without a copy; the result is read-only and shares the memory of `binary`."""
    return np.frombuffer(binary, dtype="<f4", offset=2)
