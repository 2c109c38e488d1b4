from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from importlib import import_module

import pytest

from kb_shared.errors import BatchRefused, ProviderKeyRefused, ProviderRefused, ProviderUnavailable
from kb_shared.providers.provider_errors import MEANING_OF_CLASS, Failure, Meaning, classified, retry_after_s


@pytest.mark.parametrize(
    ("failure", "status_class", "error_type"),
    [
        (Failure(["RateLimitError"], 429), "429", "provider_429"),
        (Failure(["InternalServerError"], 500), "5xx", "provider_5xx"),
        (Failure(["ServiceUnavailableError"], 503), "5xx", "provider_5xx"),
        (Failure(["APIError"], 529), "5xx", "provider_5xx"),
        (Failure(["APIConnectionError"], 500), "5xx", "provider_5xx"),
        (Failure(["APIError"], 409), "4xx", "provider_5xx"),
        (Failure(["APIError"], 425), "4xx", "provider_5xx"),
        (Failure(["Timeout", "APITimeoutError"], 408), "timeout", "provider_timeout"),
        (Failure(["InternalServerError"], 504), "timeout", "provider_timeout"),
        (Failure(), "5xx", "provider_5xx"),
    ],
)
def test_a_transient_failure_is_a_provider_unavailable(failure: Failure, status_class: str, error_type: str) -> None:
    counted, error = classified("m", replace(failure, retry_after_s=7))

    assert counted == status_class
    assert isinstance(error, ProviderUnavailable)
    assert (error.error_type, error.retry_after_s) == (error_type, 7)


@pytest.mark.parametrize(
    ("failure", "error_type"),
    [
        (Failure(["AuthenticationError"], 401), "provider_auth"),
        (Failure(["APIError"], 403), "provider_auth"),
        (Failure(["APIError"], 402), "provider_quota"),
        (Failure(["PaymentRequiredError", "BadRequestError"], 402), "provider_quota"),
        (Failure(["BudgetExceededError"]), "provider_quota"),
        (Failure(["RateLimitError"], 429, code="insufficient_quota"), "provider_quota"),
    ],
)
def test_a_failure_that_no_text_can_fix_is_a_refused_key(failure: Failure, error_type: str) -> None:
    _, error = classified("m", failure)

    assert isinstance(error, ProviderKeyRefused)
    assert error.error_type == error_type


@pytest.mark.parametrize(
    "failure",
    [
        Failure(["BadRequestError"], 400),
        Failure(["ContextWindowExceededError", "BadRequestError"], 400),
        Failure(["APIError"], 413),
        Failure(["BadRequestError"], 413),
        Failure(["UnprocessableEntityError"], 422),
        Failure(["ContentPolicyViolationError", "BadRequestError"], 400),
    ],
)
def test_a_failure_that_other_texts_may_fix_is_a_refused_batch(failure: Failure) -> None:
    counted, error = classified("m", failure)

    assert counted == "4xx"
    assert isinstance(error, BatchRefused)


@pytest.mark.parametrize(
    "failure",
    [
        Failure(["NotFoundError"], 404),
        Failure(["UnsupportedParamsError", "BadRequestError"], 400),
        Failure(["APIError"], 405),
        Failure(["APIError"], 307),
    ],
)
def test_a_failure_that_remains_with_all_texts_is_a_permanent_refusal(failure: Failure) -> None:
    _, error = classified("m", failure)

    assert type(error) is ProviderRefused
    assert error.error_type == "provider_4xx"


def test_every_exception_of_litellm_means_something() -> None:
    # One that a new version brings has to be given a meaning first.
    import_module("kb_shared.embedding.provider")  # imports litellm as it must be imported
    theirs = {
        name
        for name, value in vars(import_module("litellm.exceptions")).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
    assert theirs == set(MEANING_OF_CLASS)


def test_a_class_that_is_not_known_means_what_its_nearest_known_base_means() -> None:
    assert Failure(["MaskedHTTPStatusError", "RateLimitError", "OpenAIError"], 429).meaning is Meaning.RATE_LIMITED
    assert Failure(["SomethingNew"], 401).meaning is Meaning.KEY


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("0.25", 0.25),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        ("120, 60", None),
        ("5 minutes", None),
        ("2030-01-31T12:00:00Z", None),
        ("Fri, 31 Jan 99999 12:00:00 GMT", None),
        ("Fri, 99999999999999999999999 Jan 2030 12:00:00 GMT", None),
        ("Fri, 31 Jan 2030 12:00:60 GMT", None),
    ],
)
def test_retry_after_in_seconds(header: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": header}) == seconds


def test_retry_after_as_an_http_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    earlier = format_datetime(datetime.now(UTC) - timedelta(seconds=30), usegmt=True)

    waited = retry_after_s({"retry-after": later})
    assert waited is not None
    assert 3000 < waited <= 3600
    assert retry_after_s({"retry-after": earlier}) == 0


def test_retry_after_may_be_absent() -> None:
    assert retry_after_s({}) is None
    assert retry_after_s(None) is None
