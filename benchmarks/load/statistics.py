"""Latencies in HDR histograms, and errors by kind."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from hdrh.histogram import HdrHistogram

_HIGHEST_US: Final = 3_600_000_000
_SIGNIFICANT_FIGURES: Final = 3
PERCENTILES: Final[Mapping[str, float]] = {"p50_ms": 50, "p90_ms": 90, "p99_ms": 99, "p99_9_ms": 99.9}
_CURVE: Final = (0, 10, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.9, 99.95, 99.99, 100)


class LatencyHistogram:
    """Histogram of times from a microsecond to an hour, with three significant figures."""

    def __init__(self) -> None:
        self._histogram = HdrHistogram(1, _HIGHEST_US, _SIGNIFICANT_FIGURES)

    @property
    def count(self) -> int:
        return int(self._histogram.get_total_count())

    def record(self, seconds: float) -> None:
        self._histogram.record_value(min(max(1, round(seconds * 1_000_000)), _HIGHEST_US))

    def percentile_ms(self, percentile: float) -> float:
        """Return 0 for a histogram without values."""
        return round(self._histogram.get_value_at_percentile(percentile) / 1_000, 2) if self.count else 0.0

    def figures(self) -> dict[str, float]:
        """Return the number of values, the `PERCENTILES` and the maximum."""
        percentiles = {name: self.percentile_ms(percentile) for name, percentile in PERCENTILES.items()}
        return {"count": self.count, **percentiles, "max_ms": self.percentile_ms(100)}

    def curve_ms(self) -> list[tuple[float, float]]:
        """Return pairs of a percentile and its value, for a plot."""
        return [(percentile, self.percentile_ms(percentile)) for percentile in _CURVE] if self.count else []


class CallStatistics:
    """Latencies of calls that succeeded, and the number of each error."""

    def __init__(self) -> None:
        self.latencies = LatencyHistogram()
        self.errors: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return self.latencies.count + self.errors.total()

    def figures(self, *, arrived_in_s: float, answered_in_s: float) -> dict[str, Any]:
        """Return rates, errors and latencies.

        Args:
            arrived_in_s: seconds in which the calls arrived.
            answered_in_s: seconds until the last one was answered: longer if the system could not keep up.
        """
        return {
            "arrived_per_s": round(self.count / arrived_in_s, 2),
            "succeeded_per_s": round(self.latencies.count / answered_in_s, 2),
            "errors": dict(self.errors.most_common()),
            "latency": self.latencies.figures(),
        }
