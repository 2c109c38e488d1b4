"""Speed of a core right now. Virtual ones change by half from minute to minute, and every figure with them."""

from time import process_time
from typing import Final

TURNS: Final = 20_000_000


def loop_s() -> float:
    """Seconds of CPU that an empty loop of 20 million turns takes."""
    began = process_time()
    total = 0
    for turn in range(TURNS):
        total += turn
    return round(process_time() - began, 2)
