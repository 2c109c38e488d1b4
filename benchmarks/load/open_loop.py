"""An open loop: calls begin at their scheduled times, whether earlier calls have ended or not.

A closed loop waits for an answer before it sends the next call, so it sends less while the system is slow, and the
slow time is hardly measured (coordinated omission). Here every latency counts from the scheduled time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from benchmarks.load.statistics import LatencyHistogram

Act = Callable[[float], Awaitable[None]]
"""Makes one call. Gets its scheduled time, as `perf_counter` counts. Must not raise."""


@dataclass(slots=True)
class OpenLoop:
    """Begins calls at their times.

    Attributes:
        max_in_flight: limit of calls that have begun and not ended. A call above it is not made, but counted.
        lag: how late calls began: the generator's own lag, which is part of every latency.
    """

    max_in_flight: int
    lag: LatencyHistogram = field(default_factory=LatencyHistogram)
    begun: int = 0
    not_made: int = 0
    _in_flight: int = 0

    async def run(self, times: Iterable[float], act: Act, *, began: float) -> None:
        """Make a call at each of `times`, in seconds after `began`, and wait until all have ended."""
        async with asyncio.TaskGroup() as group:
            for at_s in times:
                due = began + at_s
                await asyncio.sleep(max(0.0, due - perf_counter()))
                self.lag.record(max(0.0, perf_counter() - due))
                if self._in_flight >= self.max_in_flight:
                    self.not_made += 1
                    continue
                self.begun += 1
                self._in_flight += 1
                group.create_task(self._make_call(act, due))

    async def _make_call(self, act: Act, due: float) -> None:
        try:
            await act(due)
        finally:
            self._in_flight -= 1

    def problems(self, *, max_lag_ms: float) -> list[str]:
        """Return why the figures are not valid; nothing if the generator kept up."""
        found = []
        if (lag_ms := self.lag.percentile_ms(99)) > max_lag_ms:
            found.append(f"the generator began calls late: p99 {lag_ms:g} ms, at most {max_lag_ms:g} ms are accepted")
        if self.not_made:
            found.append(f"{self.not_made} calls were not made, because {self.max_in_flight} were in flight")
        return found

    def figures(self) -> dict[str, Any]:
        return {"calls": self.begun, "calls_not_made": self.not_made, "lag": self.lag.figures()}
