import pytest

from kb_shared.errors import ProviderRefused, ProviderUnavailable
from kb_shared.providers.retry_policy import RetryPolicy


def unavailable(error_type: str = "provider_429", *, retry_after_s: float | None = None) -> ProviderUnavailable:
    return ProviderUnavailable("down", error_type=error_type, retry_after_s=retry_after_s)


def test_a_provider_that_names_no_time_is_asked_again_after_the_usual_pause() -> None:
    assert RetryPolicy(15).decide(unavailable()) is True


@pytest.mark.parametrize("asked_s", [0.0, 3.0])
def test_the_time_a_provider_asks_for_is_kept_to_exactly(asked_s: float) -> None:
    decided = RetryPolicy(15).decide(unavailable(retry_after_s=asked_s))

    # A bool would mean the usual pause.
    assert decided == asked_s
    assert not isinstance(decided, bool)


def test_a_wait_longer_than_what_is_left_is_not_begun() -> None:
    assert RetryPolicy(15).decide(unavailable(retry_after_s=60)) is False


def test_wrong_answers_are_not_paid_for_over_and_over() -> None:
    retry_policy = RetryPolicy(15)

    assert [retry_policy.decide(unavailable("bad_answer")) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize("error", [ProviderRefused("no", error_type="provider_auth"), ValueError("bug")])
def test_nothing_else_is_tried_again(error: Exception) -> None:
    assert RetryPolicy(15).decide(error) is False
