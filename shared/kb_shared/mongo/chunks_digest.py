"""Digest of the live chunks of a document, computed alike here and by MongoDB.

The digest is the sum of one number for each chunk: the hash of its `chunk_index` and its id. A chunk that is missing,
is there twice or has another `chunk_index` changes the sum. MongoDB computes it from an index alone, so that the
reconciler compares all chunks of a KB with their documents and reads no chunk.
"""

import hashlib
import struct
from collections.abc import Mapping
from typing import Any, Final

from bson.int64 import Int64

_MODULUS: Final = 1 << 40
"""Hashes are reduced by it: then a sum over 8 million chunks fits into the 64 bits of MongoDB's integers."""
_STRING_PREFIX: Final = struct.pack("<ii", 0, 15)
"""Bytes that MongoDB hashes before a string: the seed, and the number that stands for all types of strings."""


def chunks_digest(numbers: Mapping[str, int]) -> int:
    """Compute the digest of chunks, given as `chunk_index` by chunk id."""
    return sum(_reduce(_hash_key(f"{number}:{chunk_id}")) for chunk_id, number in numbers.items())


def build_chunk_expression() -> dict[str, Any]:
    """Build the expression for the number of one chunk; the sum over the live chunks of a document is its digest."""
    text = {"$concat": [{"$toString": "$chunk_index"}, ":", "$_id"]}
    return {"$mod": [{"$toHashedIndexKey": text}, Int64(_MODULUS)]}


def _reduce(value: int) -> int:
    """Compute the remainder as MongoDB does: with the sign of `value`."""
    return value % _MODULUS if value >= 0 else -(-value % _MODULUS)


def _hash_key(value: str) -> int:
    """Compute what a hashed index of MongoDB stores for a string."""
    data = value.encode() + b"\0"
    content = _STRING_PREFIX + struct.pack("<i", len(data)) + data
    digest = hashlib.md5(content, usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
