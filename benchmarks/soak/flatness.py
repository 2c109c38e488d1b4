"""Tests whether a figure of a process stays flat. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final

Sample = tuple[float, float]
"""Seconds since the beginning, and the value then."""
FEWEST_SAMPLES: Final = 10
RELATIVE_TOLERANCE: Final = 0.05


@dataclass(frozen=True, slots=True)
class FlatnessVerdict:
    """Result of the test of one figure.

    Attributes:
        growth: by which the figure grew during the window, according to its slope.
        tolerance: greatest growth that counts as flat: 5 % of the median, or the absolute tolerance of the figure.
    """

    is_flat: bool
    median: float
    growth: float
    tolerance: float
    growth_per_hour: float
    samples: int


def theil_sen_slope(samples: Sequence[Sample]) -> float:
    """Return the median of the slopes between all pairs of samples: single spikes don't change it."""
    slopes = [(other[1] - one[1]) / (other[0] - one[0]) for one, other in combinations(samples, 2) if other[0] > one[0]]
    return median(slopes) if slopes else 0.0


def judge_flatness(samples: Iterable[Sample], *, since_s: float, absolute_tolerance: float) -> FlatnessVerdict | None:
    """Test the samples since `since_s`; None if they are too few to say anything."""
    window = [sample for sample in samples if sample[0] >= since_s]
    if len(window) < FEWEST_SAMPLES:
        return None
    slope = theil_sen_slope(window)
    growth = slope * (window[-1][0] - window[0][0])
    middle = median(value for _, value in window)
    tolerance = max(absolute_tolerance, RELATIVE_TOLERANCE * middle)
    return FlatnessVerdict(
        is_flat=growth <= tolerance,
        median=round(middle, 1),
        growth=round(growth, 2),
        tolerance=round(tolerance, 2),
        growth_per_hour=round(slope * 3600, 2),
        samples=len(window),
    )


ABSOLUTE_TOLERANCES: Final[Mapping[str, float]] = {
    "memory_mb": 6,
    "descriptors": 5,
    "sockets": 5,
    "threads": 2,
    "tasks": 3,
    "series": 10,
}
"""Growth of each figure that counts as flat however small the figure is. Pools keep the connections of a burst."""
