import math
import time
from dataclasses import dataclass
from typing import Any

import httpx

from tests.waiting import until

POLL_S = 0.5
WITHIN_S = 300.0
"""A fault may take long to be seen on a busy machine."""


@dataclass(frozen=True, slots=True)
class PrometheusAnswers:
    """Asks a Prometheus as Grafana does."""

    http: httpx.AsyncClient

    async def until_true(self, *conditions: str) -> None:
        """Wait until each condition has held: PromQL that has an answer when it does."""
        open_conditions = list(conditions)

        async def all_have_held() -> bool:
            for condition in list(open_conditions):
                if await self._ask("/api/v1/query", query=condition):
                    open_conditions.remove(condition)
            return not open_conditions

        what = f"all of {conditions} in Prometheus"
        await until(all_have_held, what=what, within_s=WITHIN_S, every_s=POLL_S, progress=lambda: len(open_conditions))

    async def has_been_other_than_zero(self, query: str, *, since: float) -> bool:
        """Say whether a query gives a number other than zero for any time since then."""
        answer = await self._ask("/api/v1/query_range", query=query, start=since, end=time.time(), step="2s")
        values = (float(value) for series in answer for _, value in series["values"])
        return any(value != 0 and math.isfinite(value) for value in values)

    async def _ask(self, path: str, **parameters: Any) -> list[dict[str, Any]]:
        answer = (await self.http.post(path, data=parameters)).raise_for_status().json()
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result
