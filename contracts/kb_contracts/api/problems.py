"""Error responses: `application/problem+json` (RFC 9457)."""

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
