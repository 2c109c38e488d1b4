"""Errors that end a run, as the problems that its caller gets. Pure.

| error | problem |
|---|---|
| a request error, such as an unknown model | the same |
| the organization's budget is used up, or the price of the model is not known | as for any request (402, 503) |
| the provider refuses the messages, or they are too long for the model | 422 `messages-refused` |
| the provider refuses the key or the model | 503 `provider-refused` |
| the provider is down, slow or limits its callers | 503 `provider-unavailable` |
| anything else, such as MongoDB being away | 503 `unavailable` |
"""

import math
from collections.abc import Sequence
from typing import Final

from kb_search.runs.loop import RunLimit
from kb_shared.chat.request_errors import map_provider_error
from kb_shared.errors import (
    BudgetExhausted,
    Parked,
    ProviderRefused,
    ProviderUnavailable,
    RequestError,
    TransientError,
    UnknownModel,
    UnknownPrice,
)
from kb_shared.http.problems import as_request_error

_RETRY_AFTER_S: Final = 5.0


class RunCancelled(RequestError):
    """Run that a request has cancelled."""

    def __init__(self) -> None:
        super().__init__(409, "run-cancelled", "The run was cancelled with POST /runs/{run_id}/cancel.")


def run_budget_exhausted(limit: RunLimit, tokens_before_answer: int | None = None) -> RequestError:
    """Build the problem of a run that used up one of its limits before it had an answer.

    Args:
        limit: Limit that is used up.
        tokens_before_answer: Tokens that were used and that the next prompt has, if they are the reason.
    """
    remedy = (
        "Raise `budget`"
        if tokens_before_answer is None
        else f"Raise `budget` above {tokens_before_answer:,} (what was used, and the next prompt by a rather high "
        "estimate) by what the answer needs"
    )
    return RequestError(
        422,
        "run-budget-exhausted",
        f"The run has used up its budget ({limit}) without a complete answer. {remedy}, or ask a narrower question.",
        extra={"budget": limit},
    )


def invalid_answer(answer: str, violations: Sequence[str]) -> RequestError:
    """Build the problem of a run whose model gave no usable answer, not even when it was told what was wrong."""
    return RequestError(
        422,
        "invalid-answer",
        "The model's answer is empty, cut off or does not follow the schema, also after it was told what is wrong.",
        extra={"answer": answer, "violations": list(violations)},
    )


def map_run_error(error: Exception) -> RequestError:
    """Map an error that ended a run to the problem that its caller gets."""
    match error:
        case RequestError():
            return error
        case BudgetExhausted() | UnknownPrice():
            return as_request_error(error)
        case ProviderRefused() | UnknownModel() | ProviderUnavailable() | Parked():
            return map_provider_error(error)
        case _:
            retry_after_s = error.retry_after_s if isinstance(error, TransientError) else None
            return RequestError(
                503,
                "unavailable",
                f"The database is not available now; try again in {math.ceil(retry_after_s or _RETRY_AFTER_S)} s.",
                retry_after_s=retry_after_s or _RETRY_AFTER_S,
            )
