from datetime import UTC, datetime


def now() -> datetime:
    """Return the current time in whole milliseconds, as MongoDB stores it, so that later reads are equal."""
    time = datetime.now(UTC)
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def age_s(since: datetime) -> float:
    """Return the seconds since a time; 0 if it is in the future, because other clocks may be ahead."""
    return max(0.0, (datetime.now(UTC) - since).total_seconds())
