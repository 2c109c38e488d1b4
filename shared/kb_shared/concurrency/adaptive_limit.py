"""Adapts a limit of concurrent work to how long the work takes. Pure."""

from typing import Final

HALF: Final = 0.5


class AdaptiveLimit:
    """Increases additively while work is fast, and decreases multiplicatively when it is slow."""

    def __init__(
        self,
        *,
        first: int,
        most: int,
        aim_s: float,
        doubling: bool = False,
        sharpest_decrease: float = HALF,
        gentlest_decrease: float = HALF,
    ) -> None:
        """Start with `first`.

        Args:
            first: limit before the first measurement.
            most: maximum of the limit.
            aim_s: target duration. Work that takes longer is slow, work that takes less than half of it is fast.
            doubling: until the first slow work, each fast one adds one, so that a round of them doubles the limit.
            sharpest_decrease: least factor by which slow work reduces the limit, regardless of how slow it was.
            gentlest_decrease: greatest factor by which slow work reduces the limit.
        """
        self._most = float(most)
        self._aim_s = aim_s
        self._doubling = doubling
        self._sharpest = sharpest_decrease
        self._gentlest = gentlest_decrease
        self._value = min(float(first), self._most)
        self._decreases = 0

    @property
    def value(self) -> int:
        """Return the limit; at least 1."""
        return int(self._value)

    @property
    def decreases(self) -> int:
        """Return the number of decreases. Work that began before the last one says nothing about the current limit."""
        return self._decreases

    def ended(self, *, seconds: float, begun_after: int | None = None, may_grow: bool = True) -> None:
        """Record work that has ended.

        Args:
            seconds: duration of the work.
            begun_after: `decreases` when the work began; None: it always counts.
            may_grow: whether the limit was reached. A limit that is not reached must not grow.
        """
        if begun_after not in (None, self._decreases):
            return
        if seconds > self._aim_s:
            self._lower(self._aim_s / seconds)
        elif seconds < self._aim_s / 2 and may_grow:
            self._value = min(self._most, self._value + (1 if self._doubling else 1 / self._value))

    def failed(self, *, begun_after: int | None = None) -> None:
        """Record work that was cancelled at its timeout, which reduces the limit as much as possible."""
        if begun_after in (None, self._decreases):
            self._lower(self._sharpest)

    def _lower(self, left: float) -> None:
        self._value = max(1.0, self._value * min(self._gentlest, max(self._sharpest, left)))
        self._decreases += 1
        self._doubling = False
