"""Digests of the live chunks of a document, computed alike here and by MongoDB.

A digest is the sum of one number for each chunk. That of `chunks_digest` is the hash of its `chunk_index` and its id: a
chunk that is missing, is there twice or has another `chunk_index` changes the sum. MongoDB computes it from an index
alone, so that the reconciler compares all chunks of a KB with their documents and reads no chunk. That of
`vectors_digest` is the hash of its vector, and MongoDB has to read the chunks.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bson.binary import Binary
from bson.int64 import Int64

_MODULUS: Final = 1 << 40
"""Hashes are reduced by it: then a sum over 8 million chunks fits into the 64 bits of MongoDB's integers."""
_STRING_PREFIX: Final = struct.pack("<ii", 0, 15)
"""Bytes that MongoDB hashes before a string: the seed, and the number that stands for all types of strings."""
_BINARY_PREFIX: Final = struct.pack("<ii", 0, 30)
"""Bytes that MongoDB hashes before binary data."""


def chunks_digest(numbers: Mapping[str, int]) -> int:
    """Compute the digest of chunks, given as `chunk_index` by chunk id."""
    return sum(_reduce(hash_text(f"{number}:{chunk_id}")) for chunk_id, number in numbers.items())


def vectors_digest(vectors: Iterable[Binary]) -> int:
    """Compute the digest of the vectors of chunks, as they are stored."""
    return sum(_reduce(hash_vector(vector)) for vector in vectors)


def build_chunk_expression() -> dict[str, Any]:
    """Build the expression for the number of one chunk; the sum over the live chunks of a document is its digest."""
    text = {"$concat": [{"$toString": "$chunk_index"}, ":", "$_id"]}
    return {"$mod": [{"$toHashedIndexKey": text}, Int64(_MODULUS)]}


def build_vector_expression() -> dict[str, Any]:
    """Build the expression for the number of the vector of one chunk."""
    return {"$mod": [{"$toHashedIndexKey": "$embedding"}, Int64(_MODULUS)]}


def hash_text(value: str) -> int:
    """Compute what `$toHashedIndexKey` is for a string."""
    data = value.encode() + b"\0"
    return _hash_key(_STRING_PREFIX + struct.pack("<i", len(data)) + data)


def hash_vector(vector: Binary) -> int:
    """Compute what `$toHashedIndexKey` is for a stored vector."""
    return _hash_key(_BINARY_PREFIX + struct.pack("<iB", len(vector), vector.subtype) + vector)


def _reduce(value: int) -> int:
    """Compute the remainder as MongoDB does: with the sign of `value`."""
    return value % _MODULUS if value >= 0 else -(-value % _MODULUS)


def _hash_key(content: bytes) -> int:
    digest = hashlib.md5(content, usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
