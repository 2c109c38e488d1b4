"""How the CPU time of a function grows with the length of a text."""

import math
import time
from collections.abc import Callable
from typing import Final

LONGEST: Final = 16_000
"""Code points: as many line feeds as a chunk of 512 tokens can hold."""
_STEP: Final = 4
_WORTH_MEASURING_S: Final = 0.02
"""Less than this for the longest text does no harm, and the clock of a busy machine can't compare it."""
_MOST_GROWTH: Final = 10.0
"""A linear function takes 4 times as long for 4 times the text, a quadratic one 16 times."""
_MEASUREMENTS: Final = 6


def complaint(function: Callable[[str], object], text_of: Callable[[int], str], *, longest: int = LONGEST) -> str:
    """Say how the time of `function` grows faster than its text; "" if it does not.

    Args:
        function: is called with a text of the longest length, and one of a quarter of it.
        text_of: a text of about so many code points.
        longest: length of the longest text in code points.
    """
    text = text_of(longest)
    took_s = _cpu_s(function, text)
    if took_s < _WORTH_MEASURING_S:
        return ""
    quarter, shorter_s = text_of(longest // _STEP), math.inf
    # Other work on the machine can only make a measurement longer: the shortest one of several counts.
    for _ in range(_MEASUREMENTS):
        shorter_s = min(shorter_s, _cpu_s(function, quarter))
        if took_s < max(_WORTH_MEASURING_S, _MOST_GROWTH * shorter_s):
            return ""
        took_s = min(took_s, _cpu_s(function, text))
    return f"{longest} code points take {took_s:.3f} s of CPU, a quarter of them {shorter_s:.4f} s"


def _cpu_s(function: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    function(text)
    return time.thread_time() - began
