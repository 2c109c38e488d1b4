"""Errors of the client.

KbClientError
├── UnusableConfiguration    the address, the organization or the key is missing
├── UnusableHeader           an argument can't be sent as a header
├── ConnectionFailed         no answer came: is the server running?
├── CallTimedOut             no answer came in time
├── UnexpectedAnswer         the answer is not one of this API: is the address right?
├── StreamBroken             the events of a run ended before the run
├── BatchFailed              documents of a batch were refused
└── ApiError                 the API refused the request
    └── HttpNotFound, ...    one class for each status
        └── NotFoundError    one class for each `type`, in `kb_client.problems`

The message of none of them contains the API key.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb_contracts.api.problems import FieldProblem


class KbClientError(Exception):
    """Every error that this package raises on purpose."""


class UnusableConfiguration(KbClientError, ValueError):
    """A setting is missing or can't be used; the message says how to set it."""


class UnusableHeader(KbClientError, ValueError):
    """An argument that is sent as a header, such as `if_match`, has characters that no header has. Nothing was sent."""


class ConnectionFailed(KbClientError, ConnectionError):
    """The server could not be reached, or the connection ended before the answer.

    In the second case the request may have taken effect.
    """

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(message)
        self.was_sent = was_sent
        """True if the request may have reached the server."""


class CallTimedOut(KbClientError, TimeoutError):
    """No answer came within the time limit of the call. The request may have taken effect."""


class UnexpectedAnswer(KbClientError):
    """The answer is not one of this API, or of a version that this client does not understand."""


class StreamBroken(KbClientError, ConnectionError):
    """The events of a run ended without its outcome. The service stops a run whose connection is closed."""

    def __init__(self, run_id: str | None, reason: str) -> None:
        known = "" if run_id is None else f"; client.runs.get({run_id!r}) returns what is stored of it"
        super().__init__(f"the events of the run ended without its outcome: {reason}{known}")
        self.run_id = run_id
        """Id of the run; None if not even its first event came."""


class ApiError(KbClientError):
    """The API refused the request."""

    def __init__(
        self,
        detail: str,
        *,
        status: int,
        slug: str | None = None,
        request_id: str | None = None,
        fields: "Sequence[FieldProblem]" = (),
        retry_after_s: float | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        """Explanation for people: what is wrong, and what to do."""
        self.status = status
        self.slug = slug
        """Stable `type` of the problem, such as `not-found`; None if something before the API has answered."""
        self.request_id = request_id
        """Id of the request, as in the logs of the service."""
        self.fields = tuple(fields)
        """Fields that are not valid, each with its message."""
        self.retry_after_s = retry_after_s
        """Seconds after which the request can be sent again; None if the answer says nothing about it."""
        self.extra = dict(extra or {})
        """Further fields of the problem, such as `run_id` or `allowed_models`."""

    def __str__(self) -> str:
        fields = "".join(f"; {each.field}: {each.message}" for each in self.fields if each.message not in self.detail)
        request = "" if self.request_id is None else f", request {self.request_id}"
        detail = self.detail.removesuffix(".") if fields else self.detail
        return f"{detail}{fields} ({self.slug or 'status'} {self.status}{request})"


class HttpClientError(ApiError):
    """The request can't be carried out as it is: status 4xx."""


class HttpServerError(ApiError):
    """The service could not carry the request out: status 5xx."""


class HttpBadRequest(HttpClientError):
    """Status 400."""


class HttpUnauthorized(HttpClientError):
    """Status 401."""


class HttpPaymentRequired(HttpClientError):
    """Status 402."""


class HttpForbidden(HttpClientError):
    """Status 403."""


class HttpNotFound(HttpClientError):
    """Status 404."""


class HttpMethodNotAllowed(HttpClientError):
    """Status 405."""


class HttpNotAcceptable(HttpClientError):
    """Status 406."""


class HttpRequestTimeout(HttpClientError):
    """Status 408."""


class HttpConflict(HttpClientError):
    """Status 409."""


class HttpGone(HttpClientError):
    """Status 410."""


class HttpPreconditionFailed(HttpClientError):
    """Status 412."""


class HttpContentTooLarge(HttpClientError):
    """Status 413."""


class HttpUnsupportedMediaType(HttpClientError):
    """Status 415."""


class HttpUnprocessableContent(HttpClientError):
    """Status 422."""


class HttpTooManyRequests(HttpClientError):
    """Status 429."""


class HttpInternalServerError(HttpServerError):
    """Status 500."""


class HttpBadGateway(HttpServerError):
    """Status 502."""


class HttpServiceUnavailable(HttpServerError):
    """Status 503."""


class HttpGatewayTimeout(HttpServerError):
    """Status 504."""


BY_STATUS: Mapping[int, type[ApiError]] = {
    400: HttpBadRequest,
    401: HttpUnauthorized,
    402: HttpPaymentRequired,
    403: HttpForbidden,
    404: HttpNotFound,
    405: HttpMethodNotAllowed,
    406: HttpNotAcceptable,
    408: HttpRequestTimeout,
    409: HttpConflict,
    410: HttpGone,
    412: HttpPreconditionFailed,
    413: HttpContentTooLarge,
    415: HttpUnsupportedMediaType,
    422: HttpUnprocessableContent,
    429: HttpTooManyRequests,
    500: HttpInternalServerError,
    502: HttpBadGateway,
    503: HttpServiceUnavailable,
    504: HttpGatewayTimeout,
}


def class_of_status(status: int) -> type[ApiError]:
    """Return the class of errors with this status."""
    return BY_STATUS.get(status, HttpClientError if status < 500 else HttpServerError)
