"""Lists of row numbers that only grow, by term or value."""

from array import array

import numpy as np
from numpy.typing import NDArray

RowNumbers = NDArray[np.intp]
Mask = NDArray[np.bool_]


def numbers() -> "array[int]":
    """Return an empty list of unsigned numbers of 32 bits."""
    return array("I")


def snapshot(values: "array[int]") -> NDArray[np.uint32]:
    """Return a copy: an array that NumPy looks into directly can't grow meanwhile."""
    return np.array(np.frombuffer(values, np.uint32)) if values else np.zeros(0, np.uint32)


def mask_of(rows: "array[int]", *, count: int) -> Mask:
    mask = np.zeros(count, bool)
    mask[snapshot(rows)] = True
    return mask


def renumber(rows: "array[int]", new_number: NDArray[np.int64]) -> "array[int]":
    """Return the rows by their new numbers, without those that have none (-1)."""
    new = new_number[snapshot(rows)]
    result = numbers()
    result.frombytes(new[new >= 0].astype(np.uint32).tobytes())
    return result
