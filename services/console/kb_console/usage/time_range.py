"""The time range of insights and usage, which their addresses contain."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final, Literal, TypeAlias

from fastapi import Depends, Query

RangeName = Literal["24h", "7d", "30d", "90d", "month"]
USUAL: Final[RangeName] = "30d"
RANGES: Final[Mapping[RangeName, str]] = {
    "24h": "last 24 hours",
    "7d": "last 7 days",
    "30d": "last 30 days",
    "90d": "last 90 days",
    "month": "this month",
}
_DAYS: Final[Mapping[RangeName, int]] = {"7d": 7, "30d": 30, "90d": 90}


@dataclass(frozen=True, slots=True)
class TimeRange:
    name: RangeName
    since: datetime
    until: datetime

    @property
    def query(self) -> RangeName | None:
        """Value in addresses; empty for the default range."""
        return None if self.name == USUAL else self.name

    @property
    def words(self) -> str:
        return RANGES[self.name]

    def days(self) -> list[date]:
        """Return the days in UTC that the range touches, oldest first."""
        first, last = self.since.date(), self.until.date()
        return [first + timedelta(days=number) for number in range((last - first).days + 1)]


def time_range(name: RangeName, now: datetime) -> TimeRange:
    """Return the range that ends now. Those of days contain whole days, of which today is the last."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if name == "24h":
        return TimeRange(name, now - timedelta(days=1), now)
    since = midnight.replace(day=1) if name == "month" else midnight - timedelta(days=_DAYS[name] - 1)
    return TimeRange(name, since, now)


async def _find_range(shown: Annotated[RangeName, Query(alias="range")] = USUAL) -> TimeRange:
    return time_range(shown, datetime.now(UTC))


ShownRange: TypeAlias = Annotated[TimeRange, Depends(_find_range)]
