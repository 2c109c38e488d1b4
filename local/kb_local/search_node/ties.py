"""The order of documents with equal scores.

A real index orders them by where they are in its segments. That has nothing to do with the order of insertion or of
ids, and a program that relies on one of these must fail here, too.
"""

import zlib

import bson


def key_of(document_id: object) -> bytes:
    return bson.encode({"": document_id})


def tie_order(key: bytes) -> int:
    """Return a number by which equals are ordered; the same for the same id."""
    return zlib.crc32(key)
