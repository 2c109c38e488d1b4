"""Error responses: `application/problem+json` (RFC 9457)."""

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict, Field


class FieldProblem(BaseModel):
    """Problem of one field of the request."""

    field: str = Field(description="Path of the field, such as `rate_limits.tokens_per_minute`.")
    message: str = Field(description="Description of what is wrong.")


class Problem(BaseModel):
    """Body of every error response. Some types have additional fields."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="Stable slug of the error, such as `validation-error`, for programs.")
    title: str
    status: int = Field(description="HTTP status.")
    detail: str = Field(description="Explanation of the error and what to do about it, for people.")
    request_id: str = Field(
        description="Id of the request, as in the header `X-Request-Id` and in the logs of the service."
    )
    fields: list[FieldProblem] | None = Field(
        default=None, description="Fields that are not valid. Only in a `validation-error` or `immutable-field`."
    )


STATUSES: Final[Mapping[str, tuple[int, ...]]] = {
    "bad-request": (400,),
    "body-too-large": (413,),
    "budget-exhausted": (402,),
    "caller-left": (499,),
    "chunker-unavailable": (422,),
    "concurrent-change": (409,),
    "connection-lost": (502,),
    "cursor-of-other-filters": (422,),
    "dead-letter-too-large": (409,),
    "dead-letter-unreadable": (409,),
    "document-not-failed": (409,),
    "entry-exists": (409,),
    "entry-not-failed": (409,),
    "event-too-large": (413,),
    "events-expired": (410,),
    "filter-building": (409,),
    "filter-too-broad": (422,),
    "graph-too-large": (422,),
    "idempotency-key-in-use": (409,),
    "idempotency-key-reused": (422,),
    "immutable-field": (422,),
    "incomplete-body": (400,),
    "index-not-ready": (503,),
    "internal-error": (500,),
    "invalid-answer": (422,),
    "invalid-filter": (422,),
    "job-not-cancellable": (409,),
    "kb-limit": (409,),
    "key-limited": (403,),
    "knowledge-kb-fixed": (409,),
    "malformed-json": (400, 422),
    "mcp-server-in-use": (409,),
    "messages-refused": (422,),
    "method-not-allowed": (405,),
    "missing-scope": (403,),
    "model-not-allowed": (422,),
    "no-greater-revision": (409,),
    "not-acceptable": (406,),
    "not-filterable": (422,),
    "not-found": (404,),
    "not-http": (400,),
    "outcome-unknown": (503,),
    "overloaded": (503,),
    "passage-replaced": (410,),
    "plan-not-waiting": (409,),
    "precondition-failed": (412,),
    "preview-unavailable": (503,),
    "provider-key-missing": (422,),
    "provider-keys-not-available": (503,),
    "provider-refused": (422, 503),
    "provider-unavailable": (503,),
    "query-refused": (422,),
    "quota-exceeded": (409,),
    "request-timeout": (408,),
    "reserved-id": (422,),
    "run-begun": (409,),
    "run-budget-exhausted": (422,),
    "run-cancelled": (409,),
    "run-ended": (409,),
    "runner-unavailable": (503,),
    "search-overloaded": (503,),
    "search-unavailable": (503,),
    "secret-shown-once": (409,),
    "sensitive-content": (422,),
    "service-unavailable": (503,),
    "source-run-ended": (409,),
    "source-running": (409,),
    "tag-in-use": (409,),
    "text-being-replaced": (503,),
    "too-many-at-once": (429,),
    "too-many-connections": (503,),
    "too-many-failed-authentications": (429,),
    "too-many-requests": (429,),
    "tool-exists": (400,),
    "tool-limit": (422,),
    "unauthenticated": (401,),
    "unavailable": (503,),
    "unknown-model": (422,),
    "unknown-node": (422,),
    "unknown-price": (422,),
    "unknown-tag": (422,),
    "unknown-text-ref": (422,),
    "unsupported-media-type": (415,),
    "validation-error": (422,),
    "waiting-for-text": (409,),
}
"""Slugs of all problems, each with its statuses. docs/reference/errors.md says what they mean and what to do."""
