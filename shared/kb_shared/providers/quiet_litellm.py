"""Sets up litellm before its first call. The only file that imports it (seconds of CPU, 165 MB).

It is kept from phoning home, from trying again by itself, and from logging what it was asked.
"""

import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from kb_shared.providers.provider_errors import MEANING_OF_CLASS, Failure, retry_after_s, status_of_codes

# Read while it is imported: without it litellm fetches its price list from GitHub, with retries.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
with warnings.catch_warnings():
    # Its own, and those of what it imports.
    warnings.simplefilter("ignore")
    import httpx
    import litellm
    import openai
    from litellm._internal_context import is_internal_call
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler
    from litellm.types import utils as answers
    from litellm.types.router import LiteLLM_Params
    from openai import AsyncAzureOpenAI, AsyncOpenAI

    # Else built in the first call, with a warning that is fatal where warnings are errors.
    for _model in (
        LiteLLM_Params,
        answers.Message,
        answers.Delta,
        answers.Choices,
        answers.StreamingChoices,
        answers.ModelResponse,
        answers.ModelResponseStream,
    ):
        _model.model_rebuild()

__all__ = [
    "LITELLM_ERRORS",
    "AsyncAzureOpenAI",
    "AsyncHTTPHandler",
    "AsyncOpenAI",
    "failure_of",
    "httpx",
    "litellm",
    "without_its_log",
]

# `max_retries=0` alone is overruled by this default: three requests a call, asleep through Retry-After.
litellm.DEFAULT_MAX_RETRIES = 0
litellm.suppress_debug_info = True
litellm.telemetry = False
# Some providers refuse results of tools in a call without tools, which is how a run ends.
litellm.modify_params = True
# What it would log are requests and the answers to them.
litellm.turn_off_message_logging = True
for _name in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

LITELLM_ERRORS: Final[tuple[type[Exception], ...]] = (
    openai.OpenAIError,
    *(getattr(litellm.exceptions, name) for name in MEANING_OF_CLASS),
)
"""Exceptions of litellm. Most are openai's, too, but not all."""


@contextmanager
def without_its_log() -> Iterator[None]:
    """Make calls in the block without litellm's own record of each call, which nothing here reads."""
    before = is_internal_call.set(True)
    try:
        yield
    finally:
        is_internal_call.reset(before)


def failure_of(error: Exception) -> Failure:
    """Read an error of litellm, which has a `status_code`: 500 where nothing answered.

    litellm chooses class and status by words of the answer, so what the provider itself has said comes first.
    """
    answered = _status_of_provider(error)
    status = answered or getattr(error, "status_code", None)
    return Failure(
        classes=[] if answered else [each.__name__ for each in type(error).__mro__],
        status=status if isinstance(status, int) else None,
        code=_code(error),
        retry_after_s=retry_after_s(getattr(error, "litellm_response_headers", None)),
    )


def _status_of_provider(error: BaseException) -> int | None:
    """Return the status of the answer that an error was made of, or that its body stands for; None if there is none."""
    errors = [each for each in _chain(error) if type(each).__module__ != litellm.exceptions.__name__]
    for find in (_answered_status, _status_of_body, _status_of_silence, _status_of_handler):
        if (status := next(filter(None, map(find, errors)), None)) is not None:
            return status
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it was made of."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _answered_status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    # litellm's handlers invent a response where there was none.
    is_original = not type(error).__module__.startswith("litellm")
    if is_original and isinstance(response, httpx.Response) and response.is_error:
        return int(response.status_code)
    return None


def _status_of_body(error: BaseException) -> int | None:
    """Return the status that stands in an error within an answer of the status 200."""
    body = getattr(error, "body", None)
    described = body.get("error", body) if isinstance(body, dict) else None
    return status_of_codes(described) if isinstance(described, dict) else None


def _status_of_silence(error: BaseException) -> int | None:
    silent = isinstance(error, TimeoutError | httpx.TimeoutException | openai.APITimeoutError)
    return int(HTTPStatus.REQUEST_TIMEOUT) if silent else None


def _status_of_handler(error: BaseException) -> int | None:
    """Return the status that litellm's handler of the provider read, before litellm looked at words."""
    status = getattr(error, "status_code", None)
    # Where no answer has this status, litellm has chosen it for one of 200 that it could not read.
    return 200 if status == HTTPStatus.UNPROCESSABLE_ENTITY else status if isinstance(status, int) else None


def _code(error: BaseException) -> str | None:
    """Return `error.code` of the provider's answer, which is in one of the causes of litellm's error."""
    for each in _chain(error):
        for answer in (getattr(each, "body", None), _parsed(getattr(each, "message", None))):
            described = answer.get("error", answer) if isinstance(answer, dict) else None
            code = described.get("code") if isinstance(described, dict) else None
            if isinstance(code, str):
                return code
    return None


def _parsed(answer: object) -> object:
    try:
        return json.loads(answer) if isinstance(answer, str) else None
    except (ValueError, RecursionError):
        return None
