from datetime import UTC, datetime


def now() -> datetime:
    """The time as MongoDB keeps it, in whole milliseconds: an answer must not differ from what is read back later."""
    time = datetime.now(UTC)
    return time.replace(microsecond=time.microsecond // 1000 * 1000)
