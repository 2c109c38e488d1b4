"""Problems of the API and of forms, as pages show them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kb_client.errors import ApiError, CallTimedOut, KbClientError, UnexpectedAnswer, UnusableHeader
from kb_console.errors import UnusableForm

_CHANGE_FIELDS: Final = "Change these fields and send the form again."


@dataclass(frozen=True, slots=True)
class ShownProblem:
    status: int
    title: str
    detail: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """Message of each field that is not valid."""
    request_id: str | None = None
    retry_after_s: float | None = None


def describe_problem(error: KbClientError) -> ShownProblem:
    """Return an error of a call as it is shown. The API says what to do, so its words are not changed."""
    if isinstance(error, ApiError):
        return ShownProblem(
            error.status,
            (error.slug or f"status {error.status}").replace("-", " ").capitalize(),
            # The sentence of the API names its fields, which the list below it has in words.
            _CHANGE_FIELDS if error.slug == "validation-error" and error.fields else error.detail,
            {each.field: each.message for each in error.fields},
            error.request_id,
            error.retry_after_s,
        )
    if isinstance(error, UnusableHeader):
        return ShownProblem(422, "Unusable form", "Reload the page and send the form again: it was changed on its way.")
    if isinstance(error, CallTimedOut):
        return ShownProblem(504, "No answer", "The API did not answer in time. Try again.")
    if isinstance(error, UnexpectedAnswer):
        return ShownProblem(
            502, "Unknown answer", "The API gave an answer that this version of the console can't read."
        )
    return ShownProblem(503, "API not reached", "The API can't be reached at the moment. Try again in a few seconds.")


def unusable_form(fields: Mapping[str, str]) -> ShownProblem:
    """Return the problem of a form with values that can't be sent."""
    return ShownProblem(422, "Validation error", _CHANGE_FIELDS, fields)


def describe_refusal(error: UnusableForm | KbClientError) -> ShownProblem:
    """Return why a form was refused, as it is shown above the form.

    Raises:
        ApiError: the session has ended, which the edge turns into a sign-in.
    """
    if isinstance(error, UnusableForm):
        return unusable_form(error.fields)
    if isinstance(error, ApiError) and error.status == 401:
        raise error
    return describe_problem(error)
