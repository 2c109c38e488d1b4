"""A caller with too many wrong keys is told to wait, and no other caller is affected."""

import pytest

from kb_shared.errors import RequestError
from kb_shared.http import failed_authentications
from kb_shared.http.failed_authentications import MOST_KNOWN, FailedAuthentications

FAILURE = RequestError(401, "unauthenticated", "no")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(failed_authentications, "monotonic", clock)
    return clock


def statuses(failures: FailedAuthentications, times: int, address: str = "a", key_id: str | None = None) -> list[int]:
    return [failures.count_failure(FAILURE, address=address, key_id=key_id).status for _ in range(times)]


def test_a_minutes_worth_may_fail_at_once_and_then_one_as_often_as_the_limit_says(clock: Clock) -> None:
    failures = FailedAuthentications(per_minute_of_address=6, per_minute_of_key=0)
    assert statuses(failures, 8) == [401] * 6 + [429] * 2
    refusal = failures.count_failure(FAILURE, address="a", key_id=None)
    assert refusal.retry_after_s == 10
    clock.now += 10
    assert statuses(failures, 2) == [401, 429]
    assert statuses(failures, 1, address="b") == [401]


def test_a_key_that_is_guessed_from_many_addresses_has_a_limit_of_its_own(clock: Clock) -> None:
    failures = FailedAuthentications(per_minute_of_address=100, per_minute_of_key=2)
    found = [failures.count_failure(FAILURE, address=f"a{number}", key_id="k").status for number in range(4)]
    assert found == [401, 401, 429, 429]
    assert statuses(failures, 1, address="a0", key_id="other") == [401]
    clock.now += 60
    assert statuses(failures, 1, key_id="k") == [401]


def test_no_limit_is_no_limit_and_nothing_is_kept() -> None:
    failures = FailedAuthentications(per_minute_of_address=0, per_minute_of_key=0)
    assert set(statuses(failures, 1_000, key_id="k")) == {401}


@pytest.mark.usefixtures("clock")
def test_strangers_cannot_fill_the_memory() -> None:
    failures = FailedAuthentications(per_minute_of_address=10, per_minute_of_key=10)
    for number in range(MOST_KNOWN + 10):
        failures.count_failure(FAILURE, address=f"a{number}", key_id=f"k{number}")
    assert len(failures._of_address._debts) == len(failures._of_key._debts) == MOST_KNOWN
