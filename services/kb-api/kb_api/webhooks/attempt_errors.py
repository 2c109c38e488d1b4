"""Names what went wrong with a request to a webhook, by the types of exceptions: never by texts, which may quote.

A name that leads to a private address and one that leads nowhere have the same slug: which names exist in the network
of this deployment concerns no organization.
"""

import errno
import socket
import ssl
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

import h11
import httpx

from kb_shared.providers.public_transport import is_refused

PUT_OFF: Final = "put-off"
_ASK_FOR_PAUSE: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
_TLS_PROTOCOL: Final = "tls-protocol"
_CERTIFICATE_ERRORS: Final[Mapping[int, str]] = {
    9: "tls-certificate-not-yet-valid",
    10: "tls-certificate-expired",
    18: "tls-certificate-self-signed",
    19: "tls-certificate-self-signed",
    20: "tls-authority-unknown",
    21: "tls-authority-unknown",
    62: "tls-host-name",
    64: "tls-host-name",
}
"""Slugs by OpenSSL's `X509_V_ERR_...`, which Python gives as numbers only."""
_CONNECTION_ERRORS: Final[Mapping[int | None, str]] = {
    errno.ECONNREFUSED: "connection-refused",
    errno.EHOSTUNREACH: "host-unreachable",
    errno.ENETUNREACH: "host-unreachable",
    errno.ENETDOWN: "host-unreachable",
}
_STARTED: Final = ".started"
_PHASES: Final[Mapping[str, str]] = {
    "connection.connect_tcp": "connect",
    "connection.start_tls": "tls",
    "http11.send_request_headers": "send",
    "http11.receive_response_headers": "answer",
}
"""Phases by the events of httpcore with which they begin."""


class AttemptPhase:
    """The phase in which a request is, as httpcore's `trace` extension tells it."""

    def __init__(self) -> None:
        self.name = "connect"

    async def follow(self, event: str, _: Mapping[str, Any]) -> None:
        if event.endswith(_STARTED):
            self.name = _PHASES.get(event.removesuffix(_STARTED), self.name)


def slug_of_status(status: int) -> str | None:
    """Return the slug of an answer; None if the receiver has taken the event."""
    if status in _ASK_FOR_PAUSE:
        return PUT_OFF
    return None if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES else "refused"


def timeout_slug(phase: AttemptPhase) -> str:
    return f"timeout-{phase.name}"


def error_slug(error: httpx.HTTPError | httpx.InvalidURL, phase: AttemptPhase) -> str:
    """Return the slug of a request that got no answer, and was not cut off by a time limit."""
    causes = list(_causes(error))
    if any(isinstance(each, socket.gaierror) for each in causes) or _is_refused_address(error):
        return "name-not-resolved"
    slug = next((slug for slug in map(_slug_of_cause, causes) if slug is not None), None)
    if slug is None and phase.name == "tls":
        # Many servers end the connection if they have no version or cipher in common.
        return _TLS_PROTOCOL
    return slug or "connection-closed"


def _slug_of_cause(cause: BaseException) -> str | None:
    match cause:
        case ssl.SSLCertVerificationError():
            return _CERTIFICATE_ERRORS.get(cause.verify_code, "tls-certificate-invalid")
        case ssl.SSLError():
            return None if isinstance(cause, ssl.SSLEOFError) else _TLS_PROTOCOL
        case OSError():
            return _CONNECTION_ERRORS.get(cause.errno)
        case h11.RemoteProtocolError() | httpx.LocalProtocolError() | httpx.InvalidURL():
            return "no-http-answer"
    return None


def _is_refused_address(error: httpx.HTTPError | httpx.InvalidURL) -> bool:
    return isinstance(error, httpx.HTTPError) and is_refused(error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that led to it: several addresses of a name can fail for different reasons."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    before = error.__cause__ or error.__context__
    if before is not None:
        yield from _causes(before)
