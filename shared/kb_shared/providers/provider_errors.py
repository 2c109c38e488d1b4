"""Decides what a failed call to a provider means for the caller: by status, code and exception type, never by texts.

The provider's own message may quote the text it was sent, so nothing of it is passed on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any, Final, Literal

from kb_shared.errors import (
    AnswerWithheld,
    BatchRefused,
    KbError,
    ProviderIncompatible,
    ProviderKeyRefused,
    ProviderRefused,
    ProviderUnavailable,
)

LONGEST_RETRY_AFTER_S: Final = 3_600.0
"""Longest pause that is granted to a provider."""

StatusClass = Literal["2xx", "429", "4xx", "5xx", "timeout", "bad_answer"]


class Meaning(Enum):
    """Meaning of a failure."""

    TIMEOUT = auto()
    RATE_LIMITED = auto()
    OUTAGE = auto()
    QUOTA = auto()
    """The quota of the key is used up until a payment or the end of the month."""
    KEY = auto()
    """The key is wrong, or lacks the permission."""
    BATCH = auto()
    """The texts, or their size, are refused: fewer texts may be accepted."""
    REFUSED = auto()
    """The model or the parameters are refused, with any text."""
    INCOMPATIBLE = auto()
    """The server speaks another protocol, or the address is wrong: a person has to correct it."""
    BAD_ANSWER = auto()
    """The answer can't be used, although its status says that it can."""


MEANING_OF_CLASS: Final[Mapping[str, Meaning | None]] = {
    "APIConnectionError": Meaning.OUTAGE,
    "APIError": None,
    "APIResponseValidationError": Meaning.OUTAGE,
    "AuthenticationError": Meaning.KEY,
    "BadGatewayError": Meaning.OUTAGE,
    "BadRequestError": None,
    "BlockedPiiEntityError": Meaning.BATCH,
    "BudgetExceededError": Meaning.QUOTA,
    "ContentPolicyViolationError": Meaning.BATCH,
    "ContextWindowExceededError": Meaning.BATCH,
    "GuardrailRaisedException": Meaning.BATCH,
    "ImageFetchError": Meaning.REFUSED,
    "InternalServerError": Meaning.OUTAGE,
    "InvalidRequestError": None,
    "JSONSchemaValidationError": Meaning.OUTAGE,
    "LiteLLMUnknownProvider": Meaning.REFUSED,
    "MidStreamFallbackError": Meaning.OUTAGE,
    "MockException": None,
    "ModelNotMappedError": Meaning.REFUSED,
    "ModifyResponseException": Meaning.BATCH,
    "NotFoundError": Meaning.REFUSED,
    "OpenAIError": None,
    "PaymentRequiredError": Meaning.QUOTA,
    "PermissionDeniedError": Meaning.KEY,
    "RateLimitError": Meaning.RATE_LIMITED,
    "RejectedRequestError": Meaning.BATCH,
    "SensitiveDataRouteException": Meaning.BATCH,
    "ServiceUnavailableError": Meaning.OUTAGE,
    "Timeout": Meaning.TIMEOUT,
    "UnprocessableEntityError": Meaning.BATCH,
    "UnsupportedParamsError": Meaning.REFUSED,
    "VectorStoreSearchError": Meaning.REFUSED,
}
"""Exceptions of litellm by name; None: the status of the response says what it means."""

_MEANING_OF_STATUS: Final[Mapping[int, Meaning]] = {
    400: Meaning.BATCH,
    401: Meaning.KEY,
    402: Meaning.QUOTA,
    403: Meaning.KEY,
    408: Meaning.TIMEOUT,
    409: Meaning.OUTAGE,
    413: Meaning.BATCH,
    422: Meaning.BATCH,
    425: Meaning.OUTAGE,
    429: Meaning.RATE_LIMITED,
    504: Meaning.TIMEOUT,
}
TOO_LONG_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})
"""Error codes of a request that is longer than the model's context. llama.cpp's server sends its own with a 500."""
UNUSABLE_ANSWER_CODES: Final = frozenset({"json_validate_failed", "tool_use_failed"})
"""Error codes of Groq's 400 for what its model wrote, which may be better the next time."""
_MEANING_OF_CODE: Final[Mapping[str, Meaning]] = {
    # OpenAI, and compatible providers, send these with a 429 that lasts longer than a minute.
    **dict.fromkeys(("insufficient_quota", "billing_not_active", "billing_hard_limit_reached"), Meaning.QUOTA),
    # Google sends these with a 400.
    **dict.fromkeys(("API_KEY_INVALID", "invalid_api_key"), Meaning.KEY),
    **dict.fromkeys(TOO_LONG_CODES, Meaning.BATCH),
    **dict.fromkeys(UNUSABLE_ANSWER_CODES, Meaning.BAD_ANSWER),
}
"""Meanings of the code of the body's `error`, whatever the status."""


_PLACES_OF_CODES: Final = ("code", "type", "status")
_STATUS_OF_CODES: Final[Mapping[str, int]] = {
    "authentication_error": 401,
    "insufficient_quota": 429,
    "invalid_api_key": 401,
    "invalid_request_error": 400,
    "model_not_found": 404,
    "not_found_error": 404,
    "overloaded_error": 503,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "server_error": 500,
}
"""Statuses that codes of an error stand for, where an error comes with the status 200."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Facts of a failed call."""

    classes: Iterable[str] = ()
    """Names of the exception's class and its bases, the nearest first."""
    status: int | None = None
    """Status of the HTTP answer; None or 500 if there was none."""
    code: str | None = None
    """Code of the body's `error`."""
    retry_after_s: float | None = None
    """Seconds that the provider asked to wait."""
    incompatible: str | None = None
    """Reason why the server is none of the expected kind; None if it may be one."""

    @property
    def meaning(self) -> Meaning:
        if self.incompatible is not None:
            return Meaning.INCOMPATIBLE
        if (of_code := _MEANING_OF_CODE.get(self.code or "")) is not None:
            return of_code
        if self.status is not None and self.status < 300:
            return Meaning.BAD_ANSWER
        # A gateway gave up waiting, however litellm classifies it.
        if self.status in {408, 504}:
            return Meaning.TIMEOUT
        known = next((MEANING_OF_CLASS[name] for name in self.classes if name in MEANING_OF_CLASS), None)
        return known or self._meaning_of_status

    @property
    def _meaning_of_status(self) -> Meaning:
        if self.status is None or self.status >= 500:
            return _MEANING_OF_STATUS.get(self.status or 500, Meaning.OUTAGE)
        return _MEANING_OF_STATUS.get(self.status, Meaning.REFUSED)


_PASSING: Final[Mapping[Meaning, tuple[str, str]]] = {
    Meaning.TIMEOUT: ("did not answer in time", "provider_timeout"),
    Meaning.RATE_LIMITED: ("is limiting requests", "provider_429"),
    Meaning.OUTAGE: ("failed", "provider_5xx"),
}
_NOT_FOUND: Final = 404
_REFUSALS: Final[Mapping[Meaning, tuple[str, str, type[ProviderRefused]]]] = {
    Meaning.QUOTA: ("says that the quota of its key is used up", "provider_quota", ProviderKeyRefused),
    Meaning.KEY: ("refused its key", "provider_auth", ProviderKeyRefused),
    Meaning.BATCH: ("refused a text", "text_refused", BatchRefused),
    Meaning.REFUSED: ("refused the request", "provider_4xx", ProviderRefused),
}


def classified(model: str, failure: Failure) -> tuple[StatusClass, KbError]:
    """Return what to count and what to raise; `model` is its name, for the message."""
    meaning, status = failure.meaning, failure.status
    if meaning is Meaning.INCOMPATIBLE:
        return _status_class(meaning, status), incompatible(model, str(failure.incompatible))
    if meaning is Meaning.BAD_ANSWER:
        return "bad_answer", bad_answer(model, f"it is an error, with the status {status}")
    if meaning in _PASSING:
        what, error_type = _PASSING[meaning]
        error: KbError = ProviderUnavailable(
            _detail(model, what, status), error_type=error_type, retry_after_s=failure.retry_after_s
        )
    else:
        what, error_type, kind = _REFUSALS[meaning]
        if meaning is Meaning.REFUSED and status == _NOT_FOUND:
            what = "has no model of this name"
        error = kind(_detail(model, what, status), error_type=error_type)
    return _status_class(meaning, status), error


def _detail(model: str, what: str, status: int | None) -> str:
    return f"the provider of {model!r} {what} ({status or 'no answer'})"


def _status_class(meaning: Meaning, status: int | None) -> StatusClass:
    if meaning is Meaning.TIMEOUT:
        return "timeout"
    if status == 429 or meaning is Meaning.RATE_LIMITED:
        return "429"
    if meaning is Meaning.OUTAGE and (status is None or status >= 500):
        return "5xx"
    return "4xx"


def status_of_codes(described: Mapping[str, Any]) -> int | None:
    """Return the status that the codes of an error stand for; None if they stand for none."""
    codes = [described.get(place) for place in _PLACES_OF_CODES]
    return next((status for status in map(_status_of_code, codes) if status is not None), None)


def _status_of_code(code: object) -> int | None:
    if isinstance(code, str) and code.isdecimal():
        code = int(code[:4])
    if isinstance(code, int):
        return code if 400 <= code <= 599 else None
    return _STATUS_OF_CODES.get(code) if isinstance(code, str) else None


def bad_answer(model: str, how: str) -> ProviderUnavailable:
    """Make the error of a 200 that can't be used; the cause usually passes."""
    return ProviderUnavailable(f"the provider of {model!r} answered wrongly: {how}", error_type="bad_answer")


def incompatible(model: str, how: str) -> ProviderIncompatible:
    """Make the error of a server that is none of the kind that its address is stored as."""
    return ProviderIncompatible(
        f"the server of {model!r} does not speak OpenAI's API: {how}. Check its address (`api_base`), which usually "
        "ends in /v1"
    )


def withheld(model: str, how: str) -> AnswerWithheld:
    """Make the error of an answer that the provider, or the model, has refused to give or to finish."""
    return AnswerWithheld(f"the provider of {model!r} {how}")


def timed_out(model: str, *, after_s: float, setting: str) -> ProviderUnavailable:
    """Make the error of a provider that was silent for so long; `setting` is the one that says how long it may be."""
    return ProviderUnavailable(
        f"the provider of {model!r} timed out after {after_s:g} s ({setting})", error_type="provider_timeout"
    )


def answer_too_large(model: str, how: str) -> ProviderRefused:
    """Make the error of a 200 that is larger than a correct answer can be: repeating would only cost as much again."""
    return ProviderRefused(f"the provider of {model!r} answered with {how}", error_type="answer_too_large")


def late_model_failed(model: str, how: str) -> ProviderUnavailable:
    """Make the error of a model in this process: operators fix it, and work waits for that."""
    return ProviderUnavailable(f"the model {model!r} of this deployment fails: {how}", error_type="late_model_failed")


def retry_after_s(headers: Mapping[str, str] | None) -> float | None:
    """Read `retry-after`, in seconds or as an HTTP date; None if it is absent or invalid. At most an hour."""
    value = (headers or {}).get("retry-after")
    if value is None:
        return None
    try:
        seconds: float | None = float(value)
    except ValueError:
        seconds = _seconds_until(value)
    if seconds is None or not 0 <= seconds < float("inf"):
        return None
    # A number that is meant in milliseconds must not delay work for months.
    return min(seconds, LONGEST_RETRY_AFTER_S)


def _seconds_until(http_date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(http_date)
    except (ValueError, OverflowError):
        # A day or an hour with more digits than a C integer has.
        return None
    # A date without a zone is UTC, by RFC 5322's "-0000".
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())
