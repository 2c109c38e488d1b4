"""Arrival times of an open loop, and skewed choices. Pure."""

import random
from bisect import bisect
from collections.abc import Iterator
from itertools import accumulate


def poisson_times(per_second: float, *, seconds: float, dice: random.Random) -> Iterator[float]:
    """Yield arrival times between 0 and `seconds`. Arrivals are independent of each other, as those of many users."""
    at = dice.expovariate(per_second) if per_second > 0 else seconds
    while at < seconds:
        yield at
        at += dice.expovariate(per_second)


class ZipfChoice:
    """Chooses numbers from 0 on. Number k is chosen in proportion to 1 / (k + 1) ** skew; skew 0 is uniform."""

    def __init__(self, *, skew: float) -> None:
        self._skew = skew
        self._cumulative: list[float] = []

    def choose(self, number_of_choices: int, dice: random.Random) -> int:
        """Return a number below `number_of_choices`, which may differ from call to call."""
        self._extend(number_of_choices)
        drawn = dice.random() * self._cumulative[number_of_choices - 1]
        return min(bisect(self._cumulative, drawn, hi=number_of_choices), number_of_choices - 1)

    def _extend(self, length: int) -> None:
        known = len(self._cumulative)
        if known >= length:
            return
        weights = (1 / (number + 1) ** self._skew for number in range(known, length))
        last = self._cumulative[-1] if known else 0.0
        self._cumulative.extend(list(accumulate(weights, initial=last))[1:])
