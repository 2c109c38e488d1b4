from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_knowledge.sources.schedule import MAX_JITTER, InvalidCron, check_cron, list_next_runs, next_run_at

NOON = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron_expression", "match"),
    [
        ("0 6 * * *", datetime(2026, 11, 27, 6, tzinfo=UTC)),
        ("*/15 * * * *", datetime(2026, 11, 26, 12, 15, tzinfo=UTC)),
        ("0 6 * * MON-FRI", datetime(2026, 11, 27, 6, tzinfo=UTC)),
        ("0 0 29 2 *", datetime(2028, 2, 29, tzinfo=UTC)),
    ],
)
def test_a_source_runs_at_the_next_match_and_a_little_later(cron_expression: str, match: datetime) -> None:
    after = (NOON + MAX_JITTER).astimezone(timezone(timedelta(hours=5)))
    found = next_run_at(cron_expression, source_id="a", after=after)
    assert match <= found <= match + MAX_JITTER


def test_the_next_times_are_those_at_which_the_source_will_run() -> None:
    first = next_run_at("0 6 * * MON-FRI", source_id="a", after=NOON)
    times = list_next_runs("0 6 * * MON-FRI", source_id="a", first=first)
    assert [each.date() - NOON.date() for each in times] == [timedelta(days) for days in (1, 4, 5)]
    assert times[1] == next_run_at("0 6 * * MON-FRI", source_id="a", after=first)


EARLIEST, LATEST = (datetime(year, 1, 1) for year in (2026, 2030))  # noqa: DTZ001  # Hypothesis adds the zone


@given(st.datetimes(EARLIEST, LATEST, timezones=st.just(UTC)), st.text(max_size=5))
def test_the_next_run_is_always_later_and_missed_ones_are_one(after: datetime, source_id: str) -> None:
    first = next_run_at("0 * * * *", source_id=source_id, after=after)
    assert after < first <= after + timedelta(hours=1)
    missed = first + timedelta(days=30)
    assert missed < next_run_at("0 * * * *", source_id=source_id, after=missed) <= missed + timedelta(hours=1)


@pytest.mark.parametrize(
    "cron_expression",
    ["", "* * * *", "* * * * * *", "@daily", "60 * * * *", "* 24 * * *", "0 0 30 2 *", "a b c d e", "*/0 * * * *",
     "0 0 31 4 *", "-1 * * * *", "1,,2 * * * *", "0 0 * * 9", "* " * 200],
)  # fmt: skip
def test_other_expressions_are_refused(cron_expression: str) -> None:
    with pytest.raises(InvalidCron):
        check_cron(cron_expression, now=NOON)
