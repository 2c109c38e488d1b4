"""Lucene's BM25: how rare a term is, how often a text has it, and how long the text is.

Lucene keeps the length of a text in one byte, exact up to 40 and then with four significant bits; so do we, because the
scores would differ otherwise. Its formula has no factor (k1 + 1) since version 8.
"""

import math
from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

K1 = 1.2
B = 0.75

_EXACT_LENGTHS = 24
_SIGNIFICANT_BITS = 4


def _length(code: int) -> int:
    """Decode a byte: a number below 24, else 24 and a float of four significant bits."""
    rest = code - _EXACT_LENGTHS
    if rest < 1 << (_SIGNIFICANT_BITS - 1):
        return code
    shift = (rest >> (_SIGNIFICANT_BITS - 1)) - 1
    return _EXACT_LENGTHS + ((rest & 7 | 8) << shift)


LENGTHS = [_length(code) for code in range(256)]


def encode_length(length: int) -> int:
    """Return the byte for a number of terms: that of the greatest length which is no longer."""
    return bisect_right(LENGTHS, length) - 1


def inverse_document_frequency(documents: int, having: int) -> float:
    """Return the inverse document frequency: of `documents` with the field, `having` have the term."""
    return math.log(1 + (documents - having + 0.5) / (having + 0.5))


def length_factors(mean_length: float) -> NDArray[np.float32]:
    """Return for each length code what is added to the frequency of a term below the fraction line."""
    return (K1 * (1 - B + B * np.asarray(LENGTHS) / mean_length)).astype(np.float32)


def saturate_frequency(frequencies: NDArray[np.float32], factors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return between 0 and 1 how much a text is about a term; multiply by its inverse document frequency."""
    return frequencies / (frequencies + factors)
