"""Schedules of sources: cron expressions of five fields, in UTC."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final

from cronsim import CronSim, CronSimError

MAX_JITTER: Final = timedelta(minutes=2)
"""Longest time by which a source runs later than its expression says, so that not all begin in the same second."""
MAX_CRON_CHARACTERS: Final = 100
_FIELDS: Final = 5


class InvalidCron(ValueError):
    """An expression that never matches or is written incorrectly. The message completes "must be"."""


def next_run_at(cron_expression: str, *, source_id: str, after: datetime) -> datetime:
    """Return when a source runs next. However many runs were missed before `after`, this is one.

    Args:
        cron_expression: minute, hour, day of month, month, day of week, in UTC.
        source_id: source, whose runs are always late by the same time, at most `MAX_JITTER`.
        after: time, in any zone.

    Raises:
        InvalidCron: there is no such time, or the expression has another form.
    """
    jitter = _jitter(source_id)
    return _next_match(cron_expression, after.astimezone(UTC) - jitter) + jitter


def list_next_runs(cron_expression: str, *, source_id: str, first: datetime, count: int = 3) -> list[datetime]:
    """Return `first` and the times of the runs after it, at most `count` in all."""
    times = [first]
    try:
        while len(times) < count:
            times.append(next_run_at(cron_expression, source_id=source_id, after=times[-1]))
    except InvalidCron:
        # There is no further one.
        pass
    return times


def check_cron(cron_expression: str, *, now: datetime) -> None:
    """Raise InvalidCron unless the expression has a next time."""
    _next_match(cron_expression, now.astimezone(UTC))


def _next_match(cron_expression: str, after: datetime) -> datetime:
    if len(cron_expression) > MAX_CRON_CHARACTERS or len(cron_expression.split()) != _FIELDS:
        raise InvalidCron("a cron expression of five fields, such as 0 6 * * MON-FRI, in UTC")
    try:
        return next(CronSim(cron_expression, after))
    except CronSimError as error:
        raise InvalidCron(f"a cron expression in UTC such as 0 6 * * MON-FRI ({_field(error)})") from None
    except (StopIteration, OverflowError):
        raise InvalidCron("a cron expression that matches a day which exists") from None


def _field(error: CronSimError) -> str:
    """Return the library's words, such as `bad minute`, which quote nothing."""
    words = str(error)
    return words[:1].lower() + words[1:]


def _jitter(source_id: str) -> timedelta:
    digest = hashlib.sha256(source_id.encode()).digest()
    return timedelta(seconds=int.from_bytes(digest[:4], "big") % (int(MAX_JITTER.total_seconds()) + 1))
