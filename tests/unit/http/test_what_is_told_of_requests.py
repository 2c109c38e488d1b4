"""What metrics, logs and headers say of requests and their answers."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY, CollectorRegistry, Gauge
from pymongo import AsyncMongoClient

from kb_shared.http.application import create_app
from kb_shared.observability import metrics
from kb_shared.observability.metrics import MeasuredGauge
from kb_shared.settings import HttpSettings
from tests.unit.http.test_requests import captured_logs, routes


@pytest.fixture(scope="module")
async def http() -> AsyncIterator[httpx.AsyncClient]:
    database = AsyncMongoClient[dict[str, Any]]("mongodb://127.0.0.1:1", connect=False)["nowhere"]

    async def not_ready() -> str | None:
        return "not yet"

    app = create_app("test", HttpSettings(), database=database, routers=[routes()], ready=not_ready)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        yield client


def counted(**labels: str) -> float:
    return REGISTRY.get_sample_value("kb_http_requests_total", labels) or 0.0


@pytest.mark.parametrize(
    ("method", "path", "labels"),
    [
        ("GET", "/things", {"route": "/things", "method": "GET", "status": "200"}),
        ("GET", "/raises/not-found", {"route": "/raises/{what}", "method": "GET", "status": "404"}),
        ("GET", "/raises/database", {"route": "/raises/{what}", "method": "GET", "status": "503"}),
        ("GET", "/raises/bug", {"route": "/raises/{what}", "method": "GET", "status": "500"}),
        ("DELETE", "/things", {"route": "/things", "method": "DELETE", "status": "405"}),
        ("GET", "/healthz", {"route": "/healthz", "method": "GET", "status": "200"}),
        ("GET", "/no/such/path", {"route": "", "method": "GET", "status": "404"}),
        ("BREW", "/things", {"route": "/things", "method": "other", "status": "405"}),
    ],
)
async def test_a_request_is_counted_by_its_route_and_never_by_its_path(
    http: httpx.AsyncClient, method: str, path: str, labels: Mapping[str, str]
) -> None:
    before = counted(**labels)
    await http.request(method, path)
    assert counted(**labels) == before + 1
    timed = REGISTRY.get_sample_value(
        "kb_http_request_seconds_count", {"route": labels["route"], "method": labels["method"]}
    )
    assert timed


@pytest.mark.parametrize(
    ("path", "event", "level", "status"),
    [
        ("/raises/not-found", "http.refused", "info", 404),
        ("/things?limit=0", "http.refused", "info", 422),
        ("/no/such/path", "http.refused", "info", 404),
        ("/raises/database", "http.failed", "warning", 503),
        ("/raises/budget", "http.refused", "info", 402),
        ("/raises/bug", "http.failed", "error", 500),
    ],
)
async def test_an_error_is_found_in_the_log_by_the_request_id_of_its_answer(
    http: httpx.AsyncClient, *, path: str, event: str, level: str, status: int
) -> None:
    with captured_logs() as lines:
        answer = await http.get(path)
    assert answer.status_code == status
    (line,) = [line for line in lines if line["request_id"] == answer.json()["request_id"]]
    assert (line["event"], line["log_level"]) == (event, level)
    if event == "http.refused":
        assert (line["status"], line["problem"]) == (status, answer.json()["type"])


async def test_an_answer_without_an_error_and_a_probe_are_not_logged(http: httpx.AsyncClient) -> None:
    with captured_logs() as lines:
        assert (await http.get("/things")).status_code == 200
        assert (await http.get("/readyz")).status_code == 503
    assert lines == []


@pytest.mark.parametrize(
    "path", ["/things", "/raises/bug", "/raises/not-found", "/no/such/path", "/healthz", "/metrics"]
)
async def test_every_answer_has_the_security_headers_and_is_kept_by_no_cache(
    http: httpx.AsyncClient, path: str
) -> None:
    headers = (await http.get(path)).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


def test_a_gauge_is_exported_once_it_has_been_measured() -> None:
    registry = CollectorRegistry()
    gauge = MeasuredGauge("kb_test", "Of a test.", registry=registry)
    assert list(registry.collect()) == []
    gauge.set(0)
    assert registry.get_sample_value("kb_test") == 0

    of_function = MeasuredGauge("kb_other_test", "Of a test.", registry=registry)
    assert registry.get_sample_value("kb_other_test") is None
    of_function.set_function(lambda: 7)
    assert registry.get_sample_value("kb_other_test") == 7


def test_no_service_exports_a_gauge_that_only_another_one_measures() -> None:
    of_every_process = {metrics.EVENT_LOOP_TASKS}
    gauges = [each for each in vars(metrics).values() if isinstance(each, Gauge) and each not in of_every_process]
    # A gauge with labels has no value before one is measured.
    always_exported = [each for each in gauges if not isinstance(each, MeasuredGauge) and not each._labelnames]
    assert gauges
    assert always_exported == []
