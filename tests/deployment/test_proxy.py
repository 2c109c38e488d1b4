"""The proxy of compose.yaml routes as the local gateway does, and passes on what it gets."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from kb_local.gateway import route_upstream
from tests.deployment.proxy_routing import (
    CONFIGURATION,
    RunningProxy,
    find_nginx,
    route_by_configuration,
    running_proxy,
)
from tests.deployment.routes import all_paths
from tests.waiting import until

ODD_PATHS = (
    "/",
    "/healthz",
    "/docs",
    "/openapi.json",
    "/v0/orgs/acme",
    "/v0/orgs/acme/",
    "/v0/orgs/runs/knowledge-bases",
    "/v0/orgs/acme/knowledge-bases/search",
    "/v0/orgs/acme/knowledge:retrieve",
    "/v0/orgs/acme/knowledge/search",
    "/v0/orgs/acme/knowledge-bases/search/",
    "/v0/orgs/acme/knowledge-bases/k/searches",
    "/v0/orgs/acme/knowledge-bases/search/search",
    "/v0/orgs/acme/knowledge-bases/k/documents/search",
    "/v0/orgs/acme/knowledge-bases/k/tools",
    "/v0/orgs/acme/knowledge-bases/tool",
    "/v0/orgs/acme/documents/runs",
    "/v0/orgs/acme/documents/search",
    "/v0/orgs/acme/runs:stream",
    "/v0/orgs/acme/runs-of-others",
    "/v0/orgs/acme/knowledge:retrieve",
    "/v0/orgs/acme/knowledge:import",
    "/v0/orgs/acme/knowledge/search",
    "/v0/orgs/acme/knowledge-entries/search",
    "/v0/orgs/acme/entities/user:alice",
    "/v0/orgs/acme/entities-of-others",
    "/v0/orgs/acme/prompts/p/versions",
    "/runs",
    "/mcp",
    "/mcp/",
    "/knowledge-bases/k/search",
    "/v0/runs",
)


def differences(configuration: str) -> dict[str, str]:
    paths = (*all_paths(), *ODD_PATHS)
    return {
        path: routed
        for path in paths
        if (routed := route_by_configuration(configuration, path)) != route_upstream(path)
    }


def test_every_route_of_all_services_is_sent_where_the_gateway_sends_it() -> None:
    assert {"/mcp", "/v0/orgs/x1/knowledge-bases/x1/search", "/v0/orgs/x1/documents/x1"} <= set(all_paths())
    assert differences(CONFIGURATION.read_text()) == {}


@pytest.mark.parametrize(
    ("old", "new"), [("|mcp", ""), ("search(", "searches("), ("runs|", ""), ("(:[^/]*)?", ""), ("agents", "agent")]
)
def test_a_mistake_in_the_routing_is_reported(old: str, new: str) -> None:
    configuration = CONFIGURATION.read_text()
    rule = next(line for line in configuration.splitlines() if '"kb-search:8080"' in line)
    assert old in rule
    assert differences(configuration.replace(rule, rule.replace(old, new)))


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[RunningProxy]:
    if (nginx := find_nginx()) is None:
        pytest.fail("needs nginx, which `make images` gets")
    async with running_proxy(nginx, tmp_path) as running:
        await until(lambda: _listens(running.port), what="nginx listens")
        yield running


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@pytest.mark.nginx
async def test_the_real_nginx_routes_every_path_and_passes_it_on_as_it_came(proxy: RunningProxy) -> None:
    escaped = "/v0/orgs/acme/documents/a%2Fruns%20b"
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{proxy.port}") as client:
        for path in (*all_paths(), *ODD_PATHS, escaped):
            answer = await client.get(path)
            assert (path, answer.headers["x-service"]) == (path, route_upstream(path))
            assert proxy.stubs[answer.headers["x-service"]].paths[-1] == path


@pytest.mark.nginx
@pytest.mark.parametrize("path", ["/metrics", "//metrics", "/x/../metrics", "/%6detrics", "/metrics?x=1"])
async def test_metrics_are_not_reachable(proxy: RunningProxy, path: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    assert answer.startswith("HTTP/1.1 404 ")
    assert "application/problem+json" in answer
    assert not any(stub.paths for stub in proxy.stubs.values())


@pytest.mark.nginx
async def test_an_answer_is_streamed(proxy: RunningProxy) -> None:
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{proxy.port}", timeout=60) as client,
        client.stream("GET", "/v0/orgs/acme/runs/slow") as answer,
    ):
        lines = answer.aiter_lines()
        assert await anext(lines) == "kb-search first"
        proxy.stubs["kb-search"].second_part.set()
        assert await anext(lines) == "second"
