"""Propagates the W3C trace context, with one trace id from the event of the upstream to the searchable chunk.

Only the header `traceparent` is propagated (https://www.w3.org/TR/trace-context/). Its ids are in logs, jobs and
messages.
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
    """Continue the trace `incoming`, or start a new one if it is missing or malformed; return the new header."""
    traceparent = child_of(incoming)
    _current.set(traceparent)
    structlog.contextvars.bind_contextvars(trace_id=trace_id_of(traceparent))
    return traceparent


def child_of(incoming: str | None) -> str:
    """Return a new header in the trace `incoming`, or in a new trace if it is missing or malformed."""
    return f"00-{trace_id_of(incoming) or secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def current() -> str:
    """Return the header of the current trace, which is started if there is none."""
    return _current.get() or start()


def trace_id_of(traceparent: str | None) -> str | None:
    """Return the trace id; None if there is none."""
    return traceparent.split("-")[1] if traceparent and _PATTERN.fullmatch(traceparent) else None


def from_headers(headers: Iterable[tuple[str, bytes]]) -> str | None:
    """Return the `traceparent` in the headers of a Kafka record; None if there is none."""
    return next((value.decode(errors="replace") for name, value in headers if name == HEADER), None)
