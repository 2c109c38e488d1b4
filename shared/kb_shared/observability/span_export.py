"""Sends spans to a collector over OTLP, with OpenTelemetry's exporter and the variables that it reads.

Imported only if an endpoint is set: it takes 0.1 s of CPU. Spans are encoded here, not by the exporter, because its own
encoder takes more than twice the CPU.
"""

import logging
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final
from uuid import uuid4

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as EncodedResource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status
from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from kb_shared.observability.span_recording import RecordedSpan

_KINDS: Final = {name.removeprefix("SPAN_KIND_").lower(): number for name, number in Span.SpanKind.items()}

# They quote answers of the collector, and repeat each failure; `spans.dropped` says it once a minute.
logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)


class OtlpSender:
    """Sender of spans to the collector that the variables of OpenTelemetry name."""

    def __init__(self, service: str) -> None:
        self._exporter = OTLPSpanExporter()
        self._resource = _describe_process(service)
        self._scope = InstrumentationScope(name="kb_shared", version=version("kb-shared"))

    def send(self, spans: Sequence[RecordedSpan]) -> bool:
        """Send spans, with retries for as long as OTEL_EXPORTER_OTLP_TIMEOUT; return whether they were accepted."""
        request = ExportTraceServiceRequest(
            resource_spans=[
                ResourceSpans(
                    resource=self._resource,
                    scope_spans=[ScopeSpans(scope=self._scope, spans=[_encode(span) for span in spans])],
                )
            ]
        )
        try:
            client = self._exporter._client  # noqa: SLF001  # its public method takes spans of the SDK only
            return client.export(request.SerializeToString()).success
        except Exception:  # noqa: BLE001  # no error of the exporter may end the thread that sends
            return False

    def close(self) -> None:
        """End a wait before a retry."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # it has no types


def _describe_process(service: str) -> EncodedResource:
    own = {"service.name": service, "service.version": version("kb-shared"), "service.instance.id": str(uuid4())}
    # What the variables of OpenTelemetry say takes precedence.
    resource = Resource.create(own).merge(OTELResourceDetector().detect())
    return EncodedResource(attributes=[_attribute(name, value) for name, value in resource.attributes.items()])


def _encode(span: RecordedSpan) -> Span:
    return Span(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=b"" if span.parent_id is None else bytes.fromhex(span.parent_id),
        flags=1,
        name=span.name,
        kind=_KINDS[span.kind],
        start_time_unix_nano=span.started_ns,
        end_time_unix_nano=span.ended_ns,
        attributes=[_attribute(name, value) for name, value in span.attributes.items()],
        links=[
            Span.Link(trace_id=bytes.fromhex(link.trace_id), span_id=bytes.fromhex(link.span_id)) for link in span.links
        ],
        status=Status(code=Status.STATUS_CODE_ERROR) if span.has_failed else None,
    )


def _attribute(name: str, value: Any) -> KeyValue:
    return KeyValue(key=name, value=_value(value))


def _value(value: Any) -> AnyValue:
    match value:
        case str():
            return AnyValue(string_value=value)
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case _:
            return AnyValue(array_value=ArrayValue(values=[_value(each) for each in value]))
