from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final, Literal, get_args

from kb_shared.observability import spans, tracing
from kb_shared.observability.metrics import SEARCH_SECONDS

SearchStage = Literal["embed", "vector", "text", "read"]
_OBSERVED: Final = {name: SEARCH_SECONDS.labels(name) for name in (*get_args(SearchStage), "total")}


class Stopwatch:
    """Measures the stages of one search; the times of a stage that runs more than once are added."""

    def __init__(self) -> None:
        self._start = perf_counter()
        self._seconds: dict[str, float] = dict.fromkeys(get_args(SearchStage), 0.0)

    @contextmanager
    def stage(self, name: SearchStage) -> Iterator[None]:
        start = perf_counter()
        try:
            with tracing.span(spans.SEARCH_STAGE, of=name):
                yield
        finally:
            self._seconds[name] += perf_counter() - start

    def finish(self) -> dict[str, float]:
        """Observe all stages and the total in the metrics, and return them in milliseconds."""
        self._seconds["total"] = perf_counter() - self._start
        for name, seconds in self._seconds.items():
            _OBSERVED[name].observe(seconds)
        return {name: round(seconds * 1000, 3) for name, seconds in self._seconds.items()}
