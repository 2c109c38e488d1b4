"""Reads answers: the model of a success, or the error of a problem."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from kb_client.errors import ApiError, UnexpectedAnswer, class_of_status
from kb_client.problems import BY_SLUG
from kb_contracts.api.problems import FieldProblem
from kb_contracts.reasons.field_reasons import reasons

R = TypeVar("R", bound=BaseModel)

_KNOWN = frozenset({"type", "title", "status", "detail", "request_id", "fields"})


def parse_answer(response: httpx.Response, model: type[R]) -> R:
    """Return the content of a successful answer that was read to its end.

    Raises:
        UnexpectedAnswer: it is something else.
    """
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        where = [each.field or "the whole" for each in reasons(error, model, quotes=False)[:3]]
        reason = f"{model.__name__} can't be read: {', '.join(where)}"
    # The error of pydantic contains the answer, which may have texts.
    raise UnexpectedAnswer(
        f"{response.request.method} {response.url.path} returned an answer that this client does not understand"
        f" ({reason}). Is KB_BASE_URL right, and the client as new as the server?"
    )


def to_error(response: httpx.Response) -> ApiError:
    """Return the error of an answer that is no success and was read to its end."""
    problem = _problem_of(response)
    slug = problem.get("type")
    error = BY_SLUG.get(slug or "", class_of_status(response.status_code))
    return error(
        problem.get("detail") or f"the server answered {response.status_code} {response.reason_phrase}".rstrip(),
        status=response.status_code,
        slug=slug,
        request_id=problem.get("request_id") or response.headers.get("X-Request-Id"),
        fields=[FieldProblem.model_validate(each) for each in problem.get("fields") or ()],
        retry_after_s=parse_retry_after(response.headers),
        extra={name: value for name, value in problem.items() if name not in _KNOWN},
    )


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of `Retry-After`, which is a number or a time; None if it is absent or neither."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        time = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (time.replace(tzinfo=time.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _problem_of(response: httpx.Response) -> dict[str, Any]:
    if response.headers.get("Content-Type", "").partition(";")[0] != "application/problem+json":
        return {}
    try:
        problem = response.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}
