"""Spans of one process and a collector that takes them, refuses them, does not answer, or is not there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kb_local.ports import free_port
from kb_shared.errors import Misconfigured
from kb_shared.observability import spans, tracing
from kb_shared.observability.metrics import SPANS_DROPPED
from kb_shared.observability.span_settings import SpanSettings, read_span_settings
from kb_shared.observability.traced_process import exporting_spans
from tests.span_receiver import SpanReceiver, exporting_to, receiving_spans
from tests.waiting import until

ROOT = Path(__file__).parents[2]
TRACE = "0af7651916cd43dd8448eb211c80319c"
SAMPLED = f"00-{TRACE}-b7ad6b7169203331-01"
NOT_SAMPLED = f"00-{TRACE}-b7ad6b7169203331-00"
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.fixture
def receiver() -> Iterator[SpanReceiver]:
    with receiving_spans() as receiver:
        yield receiver


@contextmanager
def service(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Iterator[None]:
    """Work in the block as a service with these variables."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with exporting_spans("kb-test"):
        yield


def dropped(reason: str) -> float:
    value: float = SPANS_DROPPED.labels(reason)._value.get()
    return value


def test_spans_are_exported_with_their_tree_and_all_that_are_left_when_the_process_ends(
    receiver: SpanReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(monkeypatch, **{**exporting_to(receiver), "OTEL_BSP_SCHEDULE_DELAY": "600000"}):
        with tracing.trace(spans.PROCESS, of="topic", incoming=SAMPLED) as outer:
            with tracing.span(spans.CHUNK, {"kb.chunks": 3}) as inner:
                assert tracing.current() == f"00-{TRACE}-{inner.span_id}-01"
                assert tracing.log_fields() == {"trace_id": TRACE, "span_id": inner.span_id}
            assert tracing.current_span() is outer
        assert receiver.spans == []
    trace = receiver.of_trace(TRACE)
    assert trace.path(trace.one("index chunk")) == ["process topic", "index chunk"]
    assert trace.one("process topic").parent_id == "b7ad6b7169203331"
    assert trace.one("index chunk").attributes == {"kb.chunks": 3}
    assert {(span.service, span.is_error) for span in trace.spans} == {("kb-test", False)}


def test_a_failed_span_names_the_class_of_the_error_and_quotes_nothing_of_it(
    receiver: SpanReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        service(monkeypatch, **exporting_to(receiver)),
        pytest.raises(ValueError, match="a text"),
        tracing.trace(spans.PROCESS, of="topic", incoming=SAMPLED),
    ):
        raise ValueError("a text of a document")
    [failed] = receiver.spans
    assert (failed.is_error, failed.description, failed.events) == (True, "", 0)
    assert failed.attributes == {"error.type": "ValueError"}
    assert b"a text" not in b"".join(receiver.requests)


@pytest.mark.parametrize(
    ("sampler", "incoming", "is_exported"),
    [
        ("", SAMPLED, True),
        ("", None, True),
        ("", NOT_SAMPLED, False),
        ("always_off", SAMPLED, False),
        ("always_on", NOT_SAMPLED, True),
        ("parentbased_always_off", None, False),
        ("parentbased_always_off", SAMPLED, True),
    ],
)
def test_the_sampler_decides_where_a_trace_enters_the_process_and_the_rest_of_it_follows(
    receiver: SpanReceiver, monkeypatch: pytest.MonkeyPatch, sampler: str, incoming: str | None, *, is_exported: bool
) -> None:
    with (
        service(monkeypatch, **exporting_to(receiver), OTEL_TRACES_SAMPLER=sampler),
        tracing.trace(spans.PROCESS, of="topic", incoming=incoming),
        tracing.span(spans.CHUNK),
    ):
        sent = tracing.current()
    assert len(receiver.spans) == (2 if is_exported else 0)
    if incoming is not None and not is_exported:
        assert sent == incoming


def test_batches_have_links_to_the_other_traces_that_they_work_for(
    receiver: SpanReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service(monkeypatch, **exporting_to(receiver)):
        with tracing.trace(spans.PROCESS, of="first") as first, tracing.trace(spans.PROCESS, of="second") as second:
            pass
        with tracing.within(first), tracing.span(spans.EMBED_BATCH, links=[second]):
            pass
    [batch] = receiver.of_trace(first.trace_id).all("embed batch")
    assert (batch.parent_id, batch.links) == (first.span_id, [second.span_id])


PROGRAM = """
import sys
from kb_reconciler import bootstrap, __main__
from kb_shared.observability import spans, tracing
from kb_shared.observability.traced_process import exporting_spans

with exporting_spans("kb-test"):
    with tracing.trace(spans.PROCESS, of="topic", incoming=sys.argv[1]), tracing.span(spans.CHUNK) as inner:
        inner.set({"kb.chunks": 3})
        print(tracing.current(), tracing.log_fields())
print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))])
"""


def test_without_an_endpoint_the_exporter_is_not_loaded_and_the_context_of_the_caller_is_passed_on_unchanged() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, SAMPLED],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout.splitlines() == [f"{SAMPLED} {{'trace_id': '{TRACE}'}}", "[]"], done.stderr


def test_one_module_imports_the_exporter_and_only_when_it_is_needed() -> None:
    sources = {
        str(source.relative_to(ROOT)): source.read_text()
        for folder in ("client", "contracts", "local", "services", "shared")
        for source in (ROOT / folder).rglob("*.py")
    }
    importing = {
        name for name, source in sources.items() if re.search(r"^\s*(from|import) opentelemetry", source, re.MULTILINE)
    }
    assert importing == {"shared/kb_shared/observability/span_export.py"}
    loading = {name: source for name, source in sources.items() if re.search(r"import.*OtlpSender\b", source)}
    assert list(loading) == ["shared/kb_shared/observability/traced_process.py"]
    assert re.search(r"^    from kb_shared.observability.span_export", loading.popitem()[1], re.MULTILINE)


def test_without_an_endpoint_a_new_trace_is_not_sampled_because_no_service_would_find_its_spans() -> None:
    with tracing.trace(spans.PROCESS, of="topic", incoming="malformed") as begun:
        assert begun.traceparent.endswith("-00")
        assert tracing.trace_id_of(tracing.current()) == begun.trace_id


def test_neither_the_work_nor_its_end_waits_for_a_collector_that_does_not_answer(
    receiver: SpanReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.answering.clear()
    before = dropped("queue_full")
    # Longer than a test may take: nothing waits for an answer.
    forever = {"OTEL_EXPORTER_OTLP_TIMEOUT": "3600"}
    with service(monkeypatch, **exporting_to(receiver), **forever, OTEL_BSP_MAX_QUEUE_SIZE="100"):
        for _ in range(1_000):
            with tracing.trace(spans.PROCESS, of="topic"):
                pass
    assert dropped("queue_full") - before >= 700


@pytest.mark.parametrize("answer", [None, 400, 500])
async def test_spans_that_can_not_be_exported_are_counted_and_logged_once(
    receiver: SpanReceiver, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], answer: int | None
) -> None:
    endpoint = receiver.endpoint if answer is not None else f"http://127.0.0.1:{free_port()}"
    receiver.status = answer or 200
    environment = {
        **exporting_to(receiver),
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "0.2",
    }
    before = dropped("export_failed")
    with service(monkeypatch, **environment):
        for number in (1, 2):
            with tracing.trace(spans.PROCESS, of="topic"):
                pass
            await until(lambda number=number: dropped("export_failed") == before + number)
    out = capfd.readouterr()
    assert (out.out + out.err).count("spans.dropped") == 1
    assert "opentelemetry" not in out.err


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "user:secret@collector"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_TRACES_SAMPLER": "sometimes"}, "OTEL_TRACES_SAMPLER"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "10"}, "OTEL_TRACES_SAMPLER_ARG"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "many"}, "OTEL_BSP_MAX_QUEUE_SIZE"),
        ({"OTEL_BSP_SCHEDULE_DELAY": "nan"}, "OTEL_BSP_SCHEDULE_DELAY"),
    ],
)
def test_a_value_that_is_not_supported_ends_the_start_and_is_named(environment: dict[str, str], named: str) -> None:
    with pytest.raises(Misconfigured, match=f"^{named}") as refused:
        read_span_settings({**ENDPOINT, **environment})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"},
        {**ENDPOINT, "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_spans_are_not_exported_unless_the_environment_says_where(environment: dict[str, str]) -> None:
    assert read_span_settings(environment) is None


def test_the_queue_has_the_size_and_the_delay_that_the_environment_says() -> None:
    assert read_span_settings(ENDPOINT) == SpanSettings()
    environment = {**ENDPOINT, "OTEL_BSP_MAX_QUEUE_SIZE": "10", "OTEL_BSP_SCHEDULE_DELAY": "250"}
    assert read_span_settings(environment) == SpanSettings(max_queued=10, max_batch=10, delay_s=0.25)
