"""Decides how much a provider is asked at once, by how long its answers take. Pure.

A slow provider gets few texts at a time, so that each answer comes long before its deadline and no computed vector is
lost. A provider that is far away gets many requests at the same time.
"""

import math
from typing import Final

from kb_shared.concurrency.adaptive_limit import AdaptiveLimit
from kb_shared.embedding.sub_batches import MAX_TEXTS

FIRST_TEXTS: Final = 8
"""Texts of the first requests, before anything is known. At one text a second, two of them end in 16 s."""
FIRST_AT_ONCE: Final = 2
MOST_NEARBY: Final = 4
"""Greatest number of concurrent requests to a quick provider: with more, each one would only be smaller."""
MOST_AT_ONCE: Final = 32
KEPT_FOR_FULL: Final = 2
"""Number of the concurrent requests that only full batches may begin; others wait for more texts."""
LONGEST_ANSWER_S: Final = 5.0
"""Target duration of a request: a query behind it in the provider's queue waits no longer."""
_SHARE_OF_DEADLINE: Final = 0.125
_FASTER: Final = 0.5
"""Weight of a better measurement; a worse one replaces the estimate."""
_FORGOTTEN: Final = 1.02
"""Factor by which the soonest answer grows with each later one: a provider may become slower for good."""
GATHERED_FOR_S: Final = 0.02
"""Time that a text waits for others to fill its request. More than one new request in this time is of no use."""


_CLOCK_STEP_S: Final = 0.001
"""Step of the clock of an event loop, by which an answer may take no time."""


class Pace:
    """Adapts concurrent requests (additive increase, multiplicative decrease), and texts by the time each takes."""

    def __init__(self, *, deadline_s: float) -> None:
        """Begin with few texts and requests; `deadline_s` is how long an answer may take before it is lost.

        Without a deadline (`math.inf`) each request has the largest size, from the first one on.
        """
        self._deadline_s = deadline_s
        self._aim_s = deadline_s if math.isinf(deadline_s) else min(LONGEST_ANSWER_S, deadline_s * _SHARE_OF_DEADLINE)
        self._seconds_per_text: float | None = None
        self._requests = AdaptiveLimit(first=FIRST_AT_ONCE, most=MOST_AT_ONCE, aim_s=self._aim_s)
        self._soonest_s = math.inf

    @property
    def texts(self) -> int:
        """Return the most texts of the next request."""
        if math.isinf(self._aim_s):
            return MAX_TEXTS
        if self._seconds_per_text is None:
            return FIRST_TEXTS
        return max(1, min(MAX_TEXTS, int(self._aim_s / self._seconds_per_text)))

    @property
    def at_once(self) -> int:
        """Return the most concurrent requests."""
        return self._requests.value

    @property
    def partial_at_once(self) -> int:
        """Return the number of concurrent requests from which on a batch that is not full waits for more texts."""
        return min(self.at_once, max(FIRST_AT_ONCE, self.at_once - KEPT_FOR_FULL))

    def answered(self, texts: int, *, seconds: float) -> None:
        """Note that a request with so many texts was answered."""
        seconds = max(seconds, _CLOCK_STEP_S)
        self._soonest_s = min(seconds, self._soonest_s * _FORGOTTEN)
        self._learn(seconds / texts, is_conclusive=seconds > self._aim_s or 2 * texts >= self.texts)
        self._requests.ended(seconds=seconds, may_grow=self.at_once < self._useful_at_once)

    def timed_out(self, texts: int) -> None:
        """Note that a request with so many texts was not answered before its deadline."""
        self._learn(self._deadline_s / texts, is_conclusive=True)
        self._requests.failed()

    @property
    def _useful_at_once(self) -> float:
        """Return the most concurrent requests of use: one begins whenever a batch has collected its texts.

        The soonest answer counts: others include waits behind our own requests.
        """
        return max(float(MOST_NEARBY), self._soonest_s / GATHERED_FOR_S)

    def _learn(self, seconds_per_text: float, *, is_conclusive: bool) -> None:
        """Learn from a request. A slow one with few texts may have spent its time on the network, and is ignored."""
        known = self._seconds_per_text
        if known is None:
            self._seconds_per_text = seconds_per_text
        elif seconds_per_text <= known:
            self._seconds_per_text = known + _FASTER * (seconds_per_text - known)
        elif is_conclusive:
            self._seconds_per_text = seconds_per_text
