"""W3C trace context: one id from the upstream's event to the search hit.

Only the `traceparent` header is carried (https://www.w3.org/TR/trace-context/); whoever runs a tracer finds its ids
in logs, jobs and messages.
"""

import re
import secrets
from collections.abc import Iterable
from contextvars import ContextVar

import structlog

HEADER = "traceparent"

_PATTERN = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_current: ContextVar[str | None] = ContextVar("traceparent", default=None)


def start(incoming: str | None = None) -> str:
    """Continue `incoming`, or begin a new trace if it is absent or malformed; returns the header of this hop."""
    trace_id = incoming.split("-")[1] if incoming and _PATTERN.fullmatch(incoming) else secrets.token_hex(16)
    traceparent = f"00-{trace_id}-{secrets.token_hex(8)}-01"
    _current.set(traceparent)
    structlog.contextvars.bind_contextvars(trace_id=trace_id)
    return traceparent


def current() -> str:
    """The header to send on; begins a trace where there is none."""
    return _current.get() or start()


def trace_id_of(traceparent: str | None) -> str | None:
    """Return the trace id; None if there is none."""
    return traceparent.split("-")[1] if traceparent and _PATTERN.fullmatch(traceparent) else None


def from_headers(headers: Iterable[tuple[str, bytes]]) -> str | None:
    """The `traceparent` among the headers of a Kafka record."""
    return next((value.decode(errors="replace") for name, value in headers if name == HEADER), None)
