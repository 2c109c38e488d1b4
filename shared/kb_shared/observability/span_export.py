"""Exports spans over OTLP with OpenTelemetry's SDK. Imported only if an endpoint is set: it takes 0.1 s of CPU.

Finished spans wait in a bounded queue for a thread that sends them. So a collector that is slow or away delays nothing;
spans that the queue has no room for, or that could not be sent, are dropped and counted.
"""

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Sequence
from importlib.metadata import version
from time import monotonic
from typing import Final, Literal
from uuid import uuid4

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from kb_shared.observability.log_limit import LogLimit
from kb_shared.observability.metrics import SPANS_DROPPED
from kb_shared.observability.span_settings import SpanSettings
from kb_shared.observability.spans import SpanType
from kb_shared.observability.tracing import Attributes, TraceSpan

CLOSE_WITHIN_S: Final = 2.0
"""Time for the last spans when the process stops."""

_KINDS: Final = {kind.name.lower(): kind for kind in SpanKind}

log = structlog.get_logger()

# They quote answers of the collector, and repeat each failure; `spans.dropped` says it once a minute.
logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)


class RecordedSpan(TraceSpan):
    """Span that is exported when it ends."""

    __slots__ = ("recorded",)

    def __init__(self, recorded: Span) -> None:
        context = recorded.get_span_context()
        super().__init__(
            f"{context.trace_id:032x}", span_id=f"{context.span_id:016x}", is_sampled=bool(context.trace_flags.sampled)
        )
        self.recorded = recorded

    @property
    def is_recorded(self) -> bool:
        return True

    def set(self, attributes: Attributes) -> None:
        self.recorded.set_attributes(attributes)

    def rename(self, name: str) -> None:
        self.recorded.update_name(name)

    def fail(self, error: BaseException | str) -> None:
        # Not `record_exception`: the message of an exception may quote a document.
        self.recorded.set_attribute("error.type", error if isinstance(error, str) else type(error).__name__)
        if isinstance(error, str | Exception):
            # Work that was cancelled has not failed.
            self.recorded.set_status(Status(StatusCode.ERROR))

    def end(self) -> None:
        self.recorded.end()


class ExportQueue(SpanProcessor):
    """Queues finished spans and sends them in a thread of its own, which starts with it: make it after a fork."""

    def __init__(self, exporter: SpanExporter, settings: SpanSettings) -> None:
        self._exporter = exporter
        self._settings = settings
        self._queue: deque[ReadableSpan] = deque()
        self._wake = threading.Event()
        self._is_closing = False
        self._limit = LogLimit()
        # A copy of the context, so that its log lines name the service.
        work = contextvars.copy_context().run
        self._thread = threading.Thread(target=work, args=(self._work,), name="span-export", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is None or not span.context.trace_flags.sampled:
            return
        if self._is_closing or len(self._queue) >= self._settings.max_queued:
            self._drop(1, "queue_full")
            return
        self._queue.append(span)
        if len(self._queue) >= self._settings.max_batch:
            self._wake.set()

    def close(self, *, within_s: float) -> None:
        """Send what is queued, for up to `within_s`. The rest is dropped."""
        end = monotonic() + within_s
        self._is_closing = True
        self._wake.set()
        self._thread.join(within_s)
        if self._thread.is_alive():
            # Ends its wait before a retry. An answer that it waits for does not keep the process from ending.
            self._exporter.shutdown()
            self._thread.join(max(0.0, end - monotonic()))
        if left := len(self._queue):
            self._queue.clear()
            self._drop(left, "export_failed")

    def _work(self) -> None:
        while not self._is_closing:
            self._wake.wait(self._settings.delay_s)
            self._wake.clear()
            self._send_all()

    def _send_all(self) -> None:
        while batch := self._take_batch():
            try:
                is_sent = self._exporter.export(batch) is SpanExportResult.SUCCESS
            except Exception:  # noqa: BLE001  # no error of the exporter may end the thread
                is_sent = False
            if not is_sent:
                self._drop(len(batch), "export_failed")

    def _take_batch(self) -> Sequence[ReadableSpan]:
        # Only this thread takes spans out.
        return [self._queue.popleft() for _ in range(min(len(self._queue), self._settings.max_batch))]

    def _drop(self, spans: int, reason: Literal["queue_full", "export_failed"]) -> None:
        SPANS_DROPPED.labels(reason).inc(spans)
        if (left_out := self._limit.admit(reason)) is not None:
            log.warning("spans.dropped", reason=reason, spans=spans, left_out=left_out)


class SpanExport:
    """Recorder whose spans are exported."""

    def __init__(self, service: str, settings: SpanSettings) -> None:
        own = {"service.name": service, "service.version": version("kb-shared"), "service.instance.id": str(uuid4())}
        self._queue = ExportQueue(OTLPSpanExporter(), settings)
        provider = TracerProvider(
            # What the variables of OpenTelemetry say takes precedence.
            resource=Resource.create(own).merge(OTELResourceDetector().detect()),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._queue)
        self._tracer = provider.get_tracer("kb_shared", version("kb-shared"))

    def begin(
        self,
        span_type: SpanType,
        name: str,
        *,
        parent: TraceSpan | None,
        attributes: Attributes | None,
        links: Sequence[TraceSpan],
    ) -> TraceSpan:
        begun = self._tracer.start_span(
            name,
            context=trace.set_span_in_context(_as_parent(parent), Context()) if parent is not None else Context(),
            kind=_KINDS[span_type.kind],
            attributes=attributes,
            links=[Link(_context_of(each)) for each in links],
            record_exception=False,
            set_status_on_exception=False,
        )
        if begun.is_recording():
            return RecordedSpan(begun)
        if parent is not None:
            return TraceSpan(parent.trace_id, span_id=parent.span_id, is_sampled=parent.is_sampled)
        context = begun.get_span_context()
        return TraceSpan(f"{context.trace_id:032x}", span_id=f"{context.span_id:016x}", is_sampled=False)

    def close(self) -> None:
        self._queue.close(within_s=CLOSE_WITHIN_S)


def _as_parent(span: TraceSpan) -> Span:
    return span.recorded if isinstance(span, RecordedSpan) else NonRecordingSpan(_context_of(span))


def _context_of(span: TraceSpan) -> SpanContext:
    if isinstance(span, RecordedSpan):
        return span.recorded.get_span_context()
    flags = TraceFlags(TraceFlags.SAMPLED if span.is_sampled else TraceFlags.DEFAULT)
    return SpanContext(int(span.trace_id, 16), int(span.span_id, 16), is_remote=True, trace_flags=flags)
