from datetime import UTC, datetime


def now() -> datetime:
    """Return the current time in whole milliseconds, as MongoDB stores it, so that later reads are equal."""
    time = datetime.now(UTC)
    return time.replace(microsecond=time.microsecond // 1000 * 1000)
