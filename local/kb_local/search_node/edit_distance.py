"""Number of edits between a term and thousands of others, computed at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def edit_distances(term: str, others: Sequence[str]) -> NDArray[np.int64]:
    """Return for each of `others`, which are all of one length, how many edits it is away from `term`.

    An edit inserts, removes or replaces a character, or swaps two neighbours that no other edit touches.
    """
    if not others:
        return np.zeros(0, np.int64)
    letters = np.asarray(others, f"U{len(others[0])}").view(np.uint32).reshape(len(others), -1)
    before_last: list[NDArray[np.int64]] = []
    last = [np.full(len(others), column, np.int64) for column in range(letters.shape[1] + 1)]
    for row, letter in enumerate(map(ord, term), start=1):
        current = [np.full(len(others), row, np.int64)]
        for column in range(1, letters.shape[1] + 1):
            replaced = last[column - 1] + (letters[:, column - 1] != letter)
            distance = np.minimum(replaced, np.minimum(last[column], current[column - 1]) + 1)
            if row > 1 and column > 1:
                swapped = (letters[:, column - 2] == letter) & (letters[:, column - 1] == ord(term[row - 2]))
                distance = np.where(swapped, np.minimum(distance, before_last[column - 2] + 1), distance)
            current.append(distance)
        before_last, last = last, current
    return last[-1]
