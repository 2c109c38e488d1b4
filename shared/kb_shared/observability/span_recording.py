"""Records spans and queues them for the exporter, without OpenTelemetry's SDK, whose spans take five times the CPU."""

import contextvars
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import structlog

from kb_shared.observability.log_limit import LogLimit
from kb_shared.observability.metrics import SPANS_DROPPED
from kb_shared.observability.sampling import Sampler
from kb_shared.observability.span_settings import SpanSettings
from kb_shared.observability.spans import SpanType
from kb_shared.observability.tracing import Attributes, TraceSpan

CLOSE_WITHIN_S: Final = 2.0
"""Time for the last spans when the process stops."""

log = structlog.get_logger()


class RecordedSpan(TraceSpan):
    """Span that is exported when it has ended."""

    __slots__ = ("_on_end", "attributes", "ended_ns", "has_failed", "kind", "links", "name", "parent_id", "started_ns")

    def __init__(
        self,
        trace_id: str,
        on_end: "Callable[[RecordedSpan], None]",
        *,
        name: str,
        kind: str,
        parent_id: str | None,
        attributes: Attributes | None,
        links: Sequence[TraceSpan],
    ) -> None:
        super().__init__(trace_id, span_id=secrets.token_hex(8), is_sampled=True)
        self.name = name
        self.kind = kind
        self.parent_id = parent_id
        self.attributes: dict[str, Any] = dict(attributes) if attributes else {}
        self.links = links
        self.has_failed = False
        self.started_ns = time.time_ns()
        self.ended_ns = 0
        self._on_end = on_end

    @property
    def is_recorded(self) -> bool:
        return True

    def set(self, attributes: Attributes) -> None:
        # Once it has ended, it may be exported at any time by another thread.
        if not self.ended_ns:
            self.attributes.update(attributes)

    def rename(self, name: str) -> None:
        self.name = name

    def fail(self, error: BaseException | str) -> None:
        # Never the message of an exception: it may quote a document.
        self.set({"error.type": error if isinstance(error, str) else type(error).__name__})
        # Work that was cancelled has not failed.
        self.has_failed = self.has_failed or isinstance(error, str | Exception)

    def end(self) -> None:
        if not self.ended_ns:
            self.ended_ns = time.time_ns()
            self._on_end(self)


SendSpans: TypeAlias = Callable[[Sequence[RecordedSpan]], bool]
"""Function that sends spans to a collector, and returns whether that succeeded."""


class ExportQueue:
    """Queues finished spans, and sends them in a thread of its own, which starts with it: make it after a fork.

    A collector that is slow or away delays nothing. Spans for which the queue has no room, or which could not be sent,
    are dropped and counted.
    """

    def __init__(self, send: SendSpans, settings: SpanSettings) -> None:
        self._send = send
        self._settings = settings
        self._queue: deque[RecordedSpan] = deque()
        self._wake = threading.Event()
        self._is_closing = False
        self._limit = LogLimit()
        # In a copy of the context, so that its log lines name the service.
        work = contextvars.copy_context().run
        self._thread = threading.Thread(target=work, args=(self._work,), name="span-export", daemon=True)
        self._thread.start()

    def add(self, span: RecordedSpan) -> None:
        """Queue a finished span, or drop it if there is no room."""
        if self._is_closing or len(self._queue) >= self._settings.max_queued:
            self._drop(1, "queue_full")
            return
        self._queue.append(span)
        if len(self._queue) == self._settings.max_batch:
            self._wake.set()

    def close(self, *, stop_sending: Callable[[], None]) -> None:
        """Send what is queued, for two seconds at most. The rest is dropped.

        Args:
            stop_sending: ends the wait before a retry. An answer that is waited for does not keep the process alive.
        """
        self._is_closing = True
        self._wake.set()
        self._thread.join(CLOSE_WITHIN_S)
        stop_sending()
        if left := len(self._queue):
            self._queue.clear()
            self._drop(left, "export_failed")

    def _work(self) -> None:
        while not self._is_closing:
            self._wake.wait(self._settings.delay_s)
            self._wake.clear()
            while batch := self._take_batch():
                if not self._send(batch):
                    self._drop(len(batch), "export_failed")

    def _take_batch(self) -> Sequence[RecordedSpan]:
        batch: list[RecordedSpan] = []
        try:
            while len(batch) < self._settings.max_batch:
                batch.append(self._queue.popleft())
        except IndexError:
            # It is empty, or was cleared by `close`.
            pass
        return batch

    def _drop(self, spans: int, reason: Literal["queue_full", "export_failed"]) -> None:
        SPANS_DROPPED.labels(reason).inc(spans)
        if (left_out := self._limit.admit(reason)) is not None:
            log.warning("spans.dropped", reason=reason, spans=spans, left_out=left_out)


class SampledRecorder:
    """Recorder of the spans that the sampler chooses."""

    def __init__(self, on_end: Callable[[RecordedSpan], None], sampler: Sampler) -> None:
        """Construct it; `on_end` gets each span that has ended."""
        self._on_end = on_end
        self._sampler = sampler

    def begin(
        self,
        span_type: SpanType,
        name: str,
        *,
        parent: TraceSpan | None,
        attributes: Attributes | None,
        links: Sequence[TraceSpan],
    ) -> TraceSpan:
        trace_id = secrets.token_hex(16) if parent is None else parent.trace_id
        if (parent is None or not parent.is_recorded) and not self._sampler.is_sampled(
            trace_id, by_caller=None if parent is None else parent.is_sampled
        ):
            if parent is not None:
                return TraceSpan(trace_id, span_id=parent.span_id, is_sampled=parent.is_sampled)
            return TraceSpan(trace_id, span_id=secrets.token_hex(8), is_sampled=False)
        return RecordedSpan(
            trace_id,
            self._on_end,
            name=name,
            kind=span_type.kind,
            parent_id=None if parent is None else parent.span_id,
            attributes=attributes,
            links=links,
        )
