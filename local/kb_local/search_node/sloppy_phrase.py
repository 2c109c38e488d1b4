"""Counts a phrase whose words may be moved in a text, as Lucene's SloppyPhraseMatcher does."""

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def sloppy_frequency(text: NDArray[np.uint32], wanted: Sequence[tuple[int, int]], *, slop: int) -> float:
    """Return the sum over all matches of 1 / (1 + how far the words are moved).

    Args:
        text: the terms of the text in their order.
        wanted: (offset in the phrase, term) for each word of the phrase.
        slop: how far the words may be moved in all.
    """
    # Positions less their offset in the phrase: equal where the phrase occurs unchanged.
    positions = [(np.flatnonzero(text == term) - offset).tolist() for offset, term in wanted]
    if not all(positions):
        return 0.0
    places = [0] * len(positions)
    queue = [(found[0], word) for word, found in enumerate(positions)]
    heapq.heapify(queue)
    end = max(found[0] for found in positions)
    frequency = 0.0
    while True:
        earliest, word = heapq.heappop(queue)
        following = queue[0][0] if queue else end
        own = positions[word]
        # The earliest word moves on as long as it stays the earliest: that only makes the match closer.
        while places[word] + 1 < len(own) and own[places[word] + 1] <= following:
            places[word] += 1
            earliest = own[places[word]]
        moved = end - earliest
        if moved <= slop and _are_distinct(positions, places, wanted=wanted):
            frequency += 1 / (1 + moved)
        places[word] += 1
        if places[word] == len(own):
            return frequency
        end = max(end, own[places[word]])
        heapq.heappush(queue, (own[places[word]], word))


def _are_distinct(positions: list[list[int]], places: list[int], *, wanted: Sequence[tuple[int, int]]) -> bool:
    """Return whether a word that the phrase has twice was found twice."""
    found = {positions[word][places[word]] + wanted[word][0] for word in range(len(wanted))}
    return len(found) == len(wanted)
