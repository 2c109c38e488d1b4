"""How the CPU time of a function grows with the length of a text."""

import time
from collections.abc import Callable
from typing import Final

LONGEST: Final = 16_000
"""Code points: as many line feeds as a chunk of 512 tokens can hold."""
_SHORTEST: Final = 1_000
_STEP: Final = 4
_WORTH_MEASURING_S: Final = 0.02
"""Less than this for the longest text does no harm, and the clock of a busy machine can't compare it."""
_MOST_GROWTH: Final = 10.0
"""A linear function takes 4 times as long for 4 times the text, a quadratic one 16 times."""
_MEASUREMENTS: Final = 5


def complaint(function: Callable[[str], object], text_of: Callable[[int], str], *, longest: int = LONGEST) -> str:
    """Say how the time of `function` grows faster than its text; "" if it does not.

    Args:
        function: is called with texts of 1,000 code points, then 4 times as many, and so on.
        text_of: a text of about so many code points.
        longest: the last text has at least so many.
    """
    lengths = [_SHORTEST]
    while lengths[-1] < longest:
        lengths.append(lengths[-1] * _STEP)
    if _cpu_s(function, text_of(lengths[-1])) < _WORTH_MEASURING_S:
        return ""
    took_s = _cpu_s(function, text_of(lengths[0]))
    for length in lengths[1:]:
        shorter_s, took_s = took_s, _cpu_s(function, text_of(length))
        if took_s < _WORTH_MEASURING_S or took_s < _MOST_GROWTH * shorter_s:
            continue
        # Other work on the machine can only make a measurement longer: the shortest one of several counts.
        for _ in range(_MEASUREMENTS):
            shorter_s = min(shorter_s, _cpu_s(function, text_of(length // _STEP)))
            took_s = min(took_s, _cpu_s(function, text_of(length)))
            if took_s < _MOST_GROWTH * shorter_s:
                break
        else:
            return f"{length} code points take {took_s:.3f} s of CPU, a quarter of them {shorter_s:.4f} s"
    return ""


def _cpu_s(function: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    function(text)
    return time.thread_time() - began
