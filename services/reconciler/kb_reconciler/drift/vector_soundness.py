"""Tells sound vectors from unsound ones: float32 of the right number, finite, not all zero."""

import math
import struct
from typing import Final

from bson.binary import VECTOR_SUBTYPE, Binary, BinaryVectorDtype

from kb_shared.mongo.database import Row

_HEAD: Final = bytes([BinaryVectorDtype.FLOAT32.value[0], 0])


def is_sound(vector: object, *, dimensions: int) -> bool:
    """Return whether `vector`, as MongoDB stores it, is one that searches can use."""
    if not isinstance(vector, Binary) or vector.subtype != VECTOR_SUBTYPE:
        return False
    if len(vector) != _stored_length(dimensions) or not vector.startswith(_HEAD):
        return False
    numbers = struct.unpack(f"<{dimensions}f", vector[len(_HEAD) :])
    return any(numbers) and all(map(math.isfinite, numbers))


def build_unsound_condition(dimensions: int) -> Row:
    """Build the condition for a chunk whose vector is unsound, as far as MongoDB can tell: not for infinite numbers."""
    zero = Binary(_HEAD + bytes(4 * dimensions), VECTOR_SUBTYPE)
    size = {"$cond": [{"$eq": [{"$type": "$embedding"}, "binData"]}, {"$binarySize": "$embedding"}, 0]}
    return {"$or": [{"$ne": [size, _stored_length(dimensions)]}, {"$eq": ["$embedding", {"$literal": zero}]}]}


def _stored_length(dimensions: int) -> int:
    return len(_HEAD) + 4 * dimensions
