"""A collector of OpenTelemetry in this process: it takes OTLP over HTTP as a real one does, and keeps the spans."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from kb_shared.observability import tracing
from kb_shared.observability.sampling import Sampler
from kb_shared.observability.span_recording import RecordedSpan, SampledRecorder


@dataclass(frozen=True)
class ReceivedSpan:
    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: Mapping[str, Any]
    links: Sequence[str]
    is_error: bool
    description: str
    """Text of the status."""
    events: int

    def __repr__(self) -> str:
        return f"<{self.service}: {self.name} {self.span_id} in {self.parent_id or '-'} {dict(self.attributes)}>"


class SpanReceiver:
    """The spans that were exported to `endpoint`."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        """Bodies of the requests."""
        self.status = 200
        self.answering = threading.Event()
        """Cleared: it accepts requests and does not answer."""
        self.answering.set()
        self.endpoint = ""

    @property
    def spans(self) -> list[ReceivedSpan]:
        return [span for body in list(self.requests) for span in _read(body)]

    def of_trace(self, trace_id: str) -> "Trace":
        return Trace([span for span in self.spans if span.trace_id == trace_id])


class Trace:
    """The spans of one trace."""

    def __init__(self, spans: Iterable[ReceivedSpan]) -> None:
        self.spans = list(spans)
        self._by_id = {span.span_id: span for span in self.spans}

    def one(self, name: str, **attributes: Any) -> ReceivedSpan:
        """The only span with this name, or with a name that begins with it if it ends with a space."""
        found = self.all(name, **attributes)
        assert len(found) == 1, (name, found, self.spans)
        return found[0]

    def all(self, name: str, **attributes: Any) -> list[ReceivedSpan]:
        wanted = {key.replace("__", "."): value for key, value in attributes.items()}
        return [
            span
            for span in self.spans
            if (span.name == name or (name.endswith(" ") and span.name.startswith(name)))
            and wanted.items() <= dict(span.attributes).items()
        ]

    def path(self, span: ReceivedSpan) -> list[str]:
        """The names of the ancestors of a span, the root first, and its own."""
        names = [span.name]
        while (parent := self._by_id.get(span.parent_id)) is not None:
            names.insert(0, parent.name)
            span = parent
        return names

    def root_parent(self, span: ReceivedSpan) -> str:
        """The id of the span outside of what was received, in which the first ancestor is."""
        while (parent := self._by_id.get(span.parent_id)) is not None:
            span = parent
        return span.parent_id


def exporting_to(receiver: SpanReceiver) -> dict[str, str]:
    """The environment of a process that exports its spans at once."""
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "100"}


@contextmanager
def recording_spans() -> Iterator[list[RecordedSpan]]:
    """Record all spans of this process in the block, without an export; yield those that have ended."""
    ended: list[RecordedSpan] = []
    tracing.record_with(SampledRecorder(ended.append, Sampler()))
    try:
        # Not within the span of an earlier test, which was not recorded.
        with tracing.within(None):
            yield ended
    finally:
        tracing.record_with(None)


@contextmanager
def receiving_spans() -> Iterator[SpanReceiver]:
    receiver = SpanReceiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.requests.append(body if self.path == "/v1/traces" else b"")
            receiver.answering.wait()
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.endpoint = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    serving.start()
    try:
        yield receiver
    finally:
        receiver.answering.set()
        server.shutdown()
        serving.join()
        server.server_close()


def _read(body: bytes) -> Iterator[ReceivedSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield ReceivedSpan(
                    service=resource["service.name"],
                    name=span.name,
                    kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    attributes=_attributes(span.attributes),
                    links=[link.span_id.hex() for link in span.links],
                    is_error=span.status.code == Status.STATUS_CODE_ERROR,
                    description=span.status.message,
                    events=len(span.events),
                )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    if value.HasField("array_value"):
        return [_value(each) for each in value.array_value.values]
    return getattr(value, value.WhichOneof("value") or "string_value")
