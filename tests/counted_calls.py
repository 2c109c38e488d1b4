"""Counts calls: what a function does is the same on each machine, how long it takes is not."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def calls_counted() -> Iterator[list[int]]:
    """Count the calls of functions in this thread, also of those in C; the number is the only element of the list."""
    counted = [0]

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            counted[0] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield counted
    finally:
        sys.setprofile(before)


def count_calls(function: Callable[[], object]) -> int:
    """Return how many calls a function makes."""
    with calls_counted() as counted:
        function()
    return counted[0]
