"""How much of one kind of work may be under way at once, learnt from how long it takes. Pure."""

from typing import Final

HALF: Final = 0.5


class AdaptiveLimit:
    """Additive increase while work ends soon, multiplicative decrease when it ends late."""

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
        """Begin with `first`.

        Args:
            first: before anything is known.
            most: never more than this.
            aim_s: work that takes longer ends late; what takes less than half of it ends soon.
            doubling: until the first late end, each soon one adds one, so that a round of them doubles the limit.
            sharpest_decrease: what one late end leaves of the limit at least, however late it was.
            gentlest_decrease: what it leaves at most, however little it was late.
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
        """How much may be under way; at least 1."""
        return int(self._value)

    @property
    def decreases(self) -> int:
        """How often it was lowered. Work that began before the last time tells nothing of the limit since then."""
        return self._decreases

    def ended(self, *, seconds: float, begun_after: int | None = None, may_grow: bool = True) -> None:
        """Note work that ended.

        Args:
            seconds: that it took.
            begun_after: `decreases` when it began; None lets it count in any case.
            may_grow: whether the limit was made use of. One that nobody needs must not grow by what says nothing of it.
        """
        if begun_after not in (None, self._decreases):
            return
        if seconds > self._aim_s:
            self._lower(self._aim_s / seconds)
        elif seconds < self._aim_s / 2 and may_grow:
            self._value = min(self._most, self._value + (1 if self._doubling else 1 / self._value))

    def failed(self, *, begun_after: int | None = None) -> None:
        """Note work that was given up because its time was over: lower the limit as far as one end can."""
        if begun_after in (None, self._decreases):
            self._lower(self._sharpest)

    def _lower(self, left: float) -> None:
        self._value = max(1.0, self._value * min(self._gentlest, max(self._sharpest, left)))
        self._decreases += 1
        self._doubling = False
