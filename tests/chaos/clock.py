import asyncio
from time import monotonic


class Clock:
    """Seconds since a run began."""

    def __init__(self) -> None:
        self._began = monotonic()

    @property
    def now_s(self) -> float:
        return monotonic() - self._began

    async def reach(self, at_s: float) -> None:
        """Return at this time, at once if it is over."""
        if (left_s := at_s - self.now_s) > 0:
            await asyncio.sleep(left_s)
