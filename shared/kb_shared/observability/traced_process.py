"""Turns the export of spans on for as long as a process works, if its environment says so."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from kb_shared.observability import tracing
from kb_shared.observability.span_recording import ExportQueue, SampledRecorder
from kb_shared.observability.span_settings import read_span_settings

log = structlog.get_logger()


@contextmanager
def exporting_spans(service: str) -> Iterator[None]:
    """Export the spans of `service` in the block; enter it after a fork, because a thread sends them.

    On leaving, the spans that are left are sent, for two seconds at most.

    Raises:
        Misconfigured: a variable of OpenTelemetry has a value that is not supported.
    """
    settings = read_span_settings(os.environ)
    if settings is None:
        yield
        return
    # It imports OpenTelemetry, which takes time where it is not used.
    from kb_shared.observability.span_export import OtlpSender

    sender = OtlpSender(service)
    queue = ExportQueue(sender.send, settings)
    tracing.record_with(SampledRecorder(queue.add, settings.sampler))
    try:
        yield
    finally:
        tracing.record_with(None)
        queue.close(stop_sending=sender.close)
