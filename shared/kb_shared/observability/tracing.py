"""Traces work with spans, from the event of the upstream to the searchable chunk, and each search and run.

The trace context travels in the header `traceparent` (https://www.w3.org/TR/trace-context/): in HTTP requests, Kafka
records, jobs and messages of the outbox. Its ids are in the logs.

Without a recorder (`span_recording`) nothing is recorded. The context of the caller is then passed on unchanged, so
that its own spans stay connected.
"""

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias

from kb_shared.observability.spans import SpanType

HEADER: Final = "traceparent"

AttributeValue: TypeAlias = str | int | float | bool | Sequence[str]
Attributes: TypeAlias = Mapping[str, AttributeValue]
"""Attributes of a span. Never texts, queries, vectors or secrets."""

_PATTERN = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class TraceSpan:
    """Place in a trace. This class records nothing; the spans of an exporter do.

    In a `with` block it is the current span, and the end of the block ends it. An exception that leaves the block marks
    it as failed, with the class of the exception and without its message.
    """

    __slots__ = ("_token", "is_sampled", "span_id", "trace_id")

    def __init__(self, trace_id: str, *, span_id: str, is_sampled: bool) -> None:
        self.trace_id = trace_id
        self.span_id = span_id
        self.is_sampled = is_sampled
        self._token: Token[TraceSpan | None] | None = None

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _current.reset(self._token)
            self._token = None
        if error is not None:
            self.fail(error)
        self.end()

    @property
    def is_recorded(self) -> bool:
        return False

    @property
    def traceparent(self) -> str:
        """Return the header for what this span causes."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.is_sampled else '00'}"

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""

    def rename(self, name: str) -> None:
        """Set the name, if it was not known at the beginning."""

    def fail(self, error: BaseException | str) -> None:
        """Mark the span as failed: with the class of an exception, or with an error type."""

    def end(self) -> None:
        """End a span that is used without a `with` block."""


class _UnrecordedStep(TraceSpan):
    """Step of work that is not recorded. It leaves the current span as it is, so one object serves all of them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class SpanRecorder(Protocol):
    """Recorder of spans. Without one, nothing is recorded."""

    def begin(
        self,
        span_type: SpanType,
        name: str,
        *,
        parent: TraceSpan | None,
        attributes: Attributes | None,
        links: Sequence[TraceSpan],
    ) -> TraceSpan:
        """Begin a span, which is not recorded if the sampler leaves its trace out."""


_current: ContextVar[TraceSpan | None] = ContextVar("span", default=None)
_UNRECORDED: Final = _UnrecordedStep("0" * 32, span_id="0" * 16, is_sampled=False)
_recorders: list[SpanRecorder] = []


def record_with(recorder: SpanRecorder | None) -> None:
    """Record all spans of this process with `recorder`; None: record nothing."""
    _recorders[:] = [] if recorder is None else [recorder]


def is_recording() -> bool:
    """Return whether spans are recorded in this process."""
    return bool(_recorders)


def trace(
    span_type: SpanType,
    attributes: Attributes | None = None,
    *,
    of: str = "",
    incoming: str | None = None,
    links: Sequence[TraceSpan] = (),
) -> TraceSpan:
    """Begin the first span of this process in the trace `incoming`, or in a new one if it is missing or malformed.

    Args:
        span_type: entry of the catalogue.
        attributes: of the span.
        of: what completes the name, such as a topic.
        incoming: `traceparent` of the cause.
        links: spans of other traces that are related.
    """
    parent = parse(incoming)
    if not _recorders:
        return parent or _new_unrecorded()
    return _recorders[0].begin(span_type, span_type.build_name(of), parent=parent, attributes=attributes, links=links)


def span(
    span_type: SpanType, attributes: Attributes | None = None, *, of: str = "", links: Sequence[TraceSpan] = ()
) -> TraceSpan:
    """Begin a span within the current one. It is recorded if the current one is."""
    if not _recorders:
        return _UNRECORDED
    parent = _current.get()
    if parent is not None and not parent.is_recorded:
        return _UNRECORDED
    return _recorders[0].begin(span_type, span_type.build_name(of), parent=parent, attributes=attributes, links=links)


def annotate(attributes: Attributes) -> None:
    """Add attributes to the current span."""
    if _recorders and (here := _current.get()) is not None:
        here.set(attributes)


def current_span() -> TraceSpan | None:
    return _current.get()


@contextmanager
def within(here: TraceSpan | None) -> Iterator[None]:
    """Work in the trace of a span that another task has begun, and does not end here."""
    token = _current.set(here)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> str:
    """Return the header of the current span. Without one, a new trace is started, which is not recorded."""
    here = _current.get()
    if here is None:
        here = _new_unrecorded()
        _current.set(here)
    return here.traceparent


def continued(traceparent: str | None) -> str:
    """Return a header that was stored before; that of a new trace, which is not recorded, if there is none."""
    return (parse(traceparent) or _new_unrecorded()).traceparent


def log_fields() -> dict[str, str]:
    """Return the ids of the current span for a log line: that of the trace, and that of the span if it is recorded."""
    here = _current.get()
    if here is None:
        return {}
    if here.is_recorded:
        return {"trace_id": here.trace_id, "span_id": here.span_id}
    return {"trace_id": here.trace_id}


def trace_id_of(traceparent: str | None) -> str | None:
    """Return the trace id; None if there is none."""
    found = parse(traceparent)
    return None if found is None else found.trace_id


def parse(traceparent: str | None) -> TraceSpan | None:
    """Return the span that a header names; None if it is missing or malformed."""
    if not traceparent or not _PATTERN.fullmatch(traceparent):
        return None
    _, trace_id, span_id, flags = traceparent.split("-")
    return TraceSpan(trace_id, span_id=span_id, is_sampled=bool(int(flags, 16) & 1))


def from_headers(headers: Iterable[tuple[str, bytes | None]]) -> str | None:
    """Return the `traceparent` in the headers of a Kafka record; None if there is none that is well-formed."""
    named = (value.decode(errors="replace") for name, value in headers if name == HEADER and value is not None)
    return next((traceparent for traceparent in named if parse(traceparent) is not None), None)


def _new_unrecorded() -> TraceSpan:
    # Not sampled: no service would find the parent of its spans.
    return TraceSpan(secrets.token_hex(16), span_id=secrets.token_hex(8), is_sampled=False)
