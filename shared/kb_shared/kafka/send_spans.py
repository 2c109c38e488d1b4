"""Records the sending of messages as spans: the parents of the spans that handle them.

Only messages with headers of this system have one. The headers of a record that is sent again stay as they were.
"""

from collections.abc import Mapping, Sequence

from kb_shared.kafka.headers import Headers
from kb_shared.observability import spans, tracing
from kb_shared.observability.tracing import HEADER, TraceSpan


def begin_send_span(topic: str, headers: Headers) -> TraceSpan | None:
    """Begin the span of one message within the trace that its headers name; None if they name none."""
    if not isinstance(headers, Mapping) or HEADER not in headers:
        return None
    attributes = {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
    }
    return tracing.trace(spans.SEND, attributes, of=topic, incoming=headers[HEADER])


def name_parent(headers: Headers, span: TraceSpan | None) -> Headers:
    """Return the headers with `span` as the parent of what handles the message."""
    return headers if span is None or not isinstance(headers, Mapping) else {**headers, HEADER: span.traceparent}


def end_send_spans(begun: Sequence[TraceSpan | None], outcomes: Sequence[Exception | None]) -> None:
    """End the spans of messages whose outcomes are known."""
    for span, failure in zip(begun, outcomes, strict=True):
        if span is not None:
            if failure is not None:
                span.fail(failure)
            span.end()
