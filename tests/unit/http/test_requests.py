"""Answers of our applications to malformed and unexpected requests."""

import gzip
import re
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Annotated, Any

import httpx
import pytest
import structlog
from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import Field
from pymongo import AsyncMongoClient
from pymongo.errors import ServerSelectionTimeoutError

from kb_contracts.api.model import StrictModel
from kb_shared.errors import BudgetExhausted, NotFound, Parked, ProviderUnavailable, RequestError, TransientError
from kb_shared.http.application import create_app
from kb_shared.http.body_limits import MAX_BODY_BYTES
from kb_shared.http.model import DEFAULT_LIMIT, Limit
from kb_shared.http.routing import StrictRoute
from kb_shared.settings import HttpSettings

SECRET = "a canary that no answer and no log may repeat"


class Inner(StrictModel):
    count: int | None = None


class Body(StrictModel):
    name: Annotated[str, Field(min_length=1, max_length=10)]
    inner: Inner | None = None


RAISED: dict[str, Exception] = {
    "request-error": RequestError(409, "kb-limit", "Delete one first.", extra={"limit": 20}),
    "not-found": NotFound("knowledge base"),
    "transient": TransientError(SECRET, retry_after_s=2.1),
    "provider": ProviderUnavailable(SECRET, error_type="provider_429", retry_after_s=7),
    "parked": Parked(SECRET, error_type="provider_outage", retry_after_s=30),
    "budget": BudgetExhausted("no room for 3 more", retry_after_s=60),
    "database": ServerSelectionTimeoutError(SECRET),
    "bug": KeyError(SECRET),
}


def routes() -> APIRouter:
    router = APIRouter(route_class=StrictRoute)

    @router.get("/things")
    async def things(limit: Limit = DEFAULT_LIMIT) -> int:
        return limit

    @router.post("/things", status_code=201)
    async def create(body: Body) -> str:
        return body.name

    @router.get("/raises/{what}")
    async def raises(what: str) -> None:
        raise RAISED[what]

    return router


@pytest.fixture(scope="module")
async def http() -> AsyncIterator[httpx.AsyncClient]:
    database = AsyncMongoClient[dict[str, Any]]("mongodb://127.0.0.1:1", connect=False)["nowhere"]
    app = create_app("test", HttpSettings(), database=database, routers=[routes()], ready=_ready)
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


async def _ready() -> str | None:
    return "the flux capacitor is cold"


def problem_of(response: httpx.Response) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == response.status_code
    assert problem["request_id"] == response.headers["x-request-id"]
    assert {"type", "title", "detail"} <= problem.keys()
    return problem


async def post(http: httpx.AsyncClient, body: bytes, content_type: str = "application/json") -> httpx.Response:
    return await http.post("/things", content=body, headers={"Content-Type": content_type})


async def test_a_good_request_is_answered(http: httpx.AsyncClient) -> None:
    response = await post(http, b'{"name": "x", "inner": {"count": 3}}', "application/json; charset=utf-8")
    assert (response.status_code, response.json()) == (201, "x")
    assert response.headers["x-request-id"]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b'{"name": ""}', ["name"]),
        (b'{"name": 5}', ["name"]),
        (b'{"inner": {"count": "3"}}', ["name", "inner.count"]),
        (b'{"name": "x", "inner": {"count": 1.5}}', ["inner.count"]),
        (b'{"name": "x", "surplus": 1}', ["surplus"]),
        (b'{"name": "x", "inner": {"surplus": 1}}', ["inner.surplus"]),
        (b"[]", ["body"]),
        (b"null", ["body"]),
        (b"", ["body"]),
    ],
)
async def test_a_422_lists_the_fields_and_what_is_wrong_with_them(
    http: httpx.AsyncClient, body: bytes, fields: list[str]
) -> None:
    response = await post(http, body)
    problem = problem_of(response)
    assert (response.status_code, problem["type"]) == (422, "validation-error")
    assert [found["field"] for found in problem["fields"]] == fields
    assert all(found["message"] for found in problem["fields"])


async def test_a_422_does_not_repeat_what_the_field_held(http: httpx.AsyncClient) -> None:
    response = await post(http, b'{"name": "%b"}' % SECRET.encode())
    assert response.status_code == 422
    assert SECRET not in response.text


@pytest.mark.parametrize(
    "body", [b"{", b'{"name": NaN}', b'{"name": "x", "name": "y"}', b'{"name": "\\ud800"}', b"\xff"]
)
async def test_a_body_that_is_not_json_is_400(http: httpx.AsyncClient, body: bytes) -> None:
    response = await post(http, body)
    assert (response.status_code, problem_of(response)["type"]) == (400, "malformed-json")


async def test_a_body_that_is_not_declared_as_json_is_415(http: httpx.AsyncClient) -> None:
    response = await post(http, b'{"name": "x"}', "text/plain")
    assert (response.status_code, problem_of(response)["type"]) == (415, "unsupported-media-type")


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip", "deflate", "br", "zstd", "gzip, gzip", "identity, gzip"])
@pytest.mark.parametrize("path", ["/things", "/nowhere"])
async def test_a_compressed_body_is_415_and_says_what_is_read(http: httpx.AsyncClient, coding: str, path: str) -> None:
    for body in (gzip.compress(b'{"name": "x"}'), b'{"name": "x"}'):
        headers = {"Content-Type": "application/json", "Content-Encoding": coding}
        response = await http.post(path, content=body, headers=headers)
        problem = problem_of(response)
        assert (response.status_code, problem["type"]) == (415, "unsupported-media-type")
        assert "Content-Encoding" in problem["detail"]
        assert response.headers["Accept-Encoding"] == "identity"
        assert response.headers["X-Request-Id"] == problem["request_id"]


async def test_a_body_without_coding_is_read_also_if_the_header_says_so(http: httpx.AsyncClient) -> None:
    for coding in ("identity", "UTF-8", ""):
        headers = {"Content-Type": "application/json", "Content-Encoding": coding}
        response = await http.post("/things", content=b'{"name": "x"}', headers=headers)
        assert response.status_code == 201
    assert (await http.get("/things", headers={"Content-Encoding": "gzip"})).status_code == 200


async def test_a_body_over_the_limit_is_413_and_is_not_read_to_its_end(http: httpx.AsyncClient) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 10 * MAX_BODY_BYTES:
            sent += 100_000
            yield b" " * 100_000

    response = await http.post("/things", content=endless(), headers={"Content-Type": "application/json"})
    assert (response.status_code, problem_of(response)["type"]) == (413, "body-too-large")
    assert sent < 2 * MAX_BODY_BYTES


@pytest.mark.parametrize(
    ("query", "field"), [("limit=0", "limit"), ("limit=x", "limit"), ("limt=5", "limt"), ("limit=5&limit=6", "limit")]
)
async def test_query_parameters_that_are_wrong_unknown_or_doubled_are_422(
    http: httpx.AsyncClient, query: str, field: str
) -> None:
    response = await http.get(f"/things?{query}")
    problem = problem_of(response)
    assert response.status_code == 422
    assert [found["field"] for found in problem["fields"]] == [field]


async def test_paths_and_methods_that_are_not_there_are_problems_too(http: httpx.AsyncClient) -> None:
    missing = await http.get("/nothing")
    assert (missing.status_code, problem_of(missing)["type"]) == (404, "not-found")
    method = await http.delete("/things")
    assert (method.status_code, problem_of(method)["type"]) == (405, "method-not-allowed")
    assert method.headers["allow"] == "GET, POST"


async def test_an_id_with_an_encoded_slash_is_named_as_the_fault(http: httpx.AsyncClient) -> None:
    answer = await http.put("/v0/orgs/o/documents/a%2Fb", json={})
    assert (answer.status_code, problem_of(answer)["type"]) == (422, "validation-error")
    assert problem_of(answer)["fields"][0]["message"].startswith("must not have a slash")


@pytest.mark.parametrize(
    ("raised", "status", "slug", "retry_after"),
    [
        ("request-error", 409, "kb-limit", None),
        ("not-found", 404, "not-found", None),
        ("transient", 503, "unavailable", "3"),
        ("provider", 503, "provider-unavailable", "7"),
        ("parked", 503, "provider-unavailable", "30"),
        ("budget", 402, "budget-exhausted", "60"),
        ("database", 503, "unavailable", "1"),
        ("bug", 500, "internal-error", None),
    ],
)
async def test_an_error_becomes_the_problem_its_class_asks_for(
    http: httpx.AsyncClient, raised: str, status: int, slug: str, retry_after: str | None
) -> None:
    response = await http.get(f"/raises/{raised}")
    assert (response.status_code, problem_of(response)["type"]) == (status, slug)
    assert response.headers.get("retry-after") == retry_after
    assert SECRET not in response.text


async def test_a_problem_carries_the_fields_of_its_type(http: httpx.AsyncClient) -> None:
    assert problem_of(await http.get("/raises/request-error"))["limit"] == 20


@contextmanager
def captured_logs() -> Iterator[list[MutableMapping[str, Any]]]:
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        yield lines


async def test_a_bug_is_logged_once_with_the_request_id_and_the_route_as_a_template(http: httpx.AsyncClient) -> None:
    with captured_logs() as lines:
        response = await http.get("/raises/bug", headers={"X-Request-Id": "from-the-caller"})
    assert response.headers["x-request-id"] == "from-the-caller"
    assert [(line["event"], line["request_id"], line["route"]) for line in lines] == [
        ("http.failed", "from-the-caller", "/raises/{what}")
    ]


async def test_a_request_id_that_could_forge_a_log_line_is_replaced(http: httpx.AsyncClient) -> None:
    response = await http.get("/things", headers={"X-Request-Id": "x y"})
    assert response.headers["x-request-id"] != "x y"


async def test_health_needs_no_key_and_says_why_it_is_not_ready(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz")).status_code == 200
    ready = await http.get("/readyz")
    assert (ready.status_code, ready.json()["reason"]) == (503, "the flux capacitor is cold")
    metrics = await http.get("/metrics")
    assert metrics.status_code == 200
    assert "python_info" in metrics.text


async def test_every_service_serves_the_document_of_all_services(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    ids = {operation["operationId"] for path in document["paths"].values() for operation in path.values()}
    assert {"knowledge_bases.create", "knowledge_bases.search"} <= ids


async def test_the_page_of_the_documentation_loads_nothing_from_other_hosts(http: httpx.AsyncClient) -> None:
    page = await http.get("/docs")
    assert "default-src 'none'; script-src 'self';" in page.headers["content-security-policy"]
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert [each for each in loaded if "//" in each] == []
    for name in (each for each in loaded if each.startswith("docs/")):
        answer = await http.get(f"/{name}")
        assert (answer.status_code, answer.headers["x-content-type-options"]) == (200, "nosniff")


async def test_no_other_file_of_the_documentation_can_be_reached(http: httpx.AsyncClient) -> None:
    for name in ("index.html", "..%2fdocumentation.py", "vendored.json", "%2e%2e/documentation.py"):
        assert (await http.get(f"/docs/{name}")).status_code == 404


def test_every_route_class_here_is_strict() -> None:
    assert all(isinstance(route, StrictRoute) for route in routes().routes if isinstance(route, APIRoute))
