"""A source that reads from a real MCP server, written with the official library."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp, Receive, Scope, Send

from kb_knowledge.mcp_header_keys import McpHeaderKeys
from kb_knowledge.store import mcp_servers
from kb_knowledge.store.keys import McpServerKey
from kb_knowledge.store.knowledge_sources import KnowledgeSource, SourceKind
from kb_knowledge.store.mcp_servers import McpServer
from kb_knowledge.store.source_runs import SourceRunStatus
from kb_shared.secrets.key_ring import KeyRing, Unreadable
from tests.integration.knowledge.sources.source_runs import KEY_RING, Sources
from tests.waiting import until

SECRET = "Bearer 0123456789"


class Wiki:
    """An MCP server with some resources."""

    def __init__(self) -> None:
        self.url = ""
        self.texts = {"travel": "A night costs 140 euros.", "meals": "A meal costs 28 euros."}
        self.refused = 0
        self.server = MCPServer("wiki")
        for name in ("travel", "meals", "broken"):
            self._add(f"handbook/{name}", "text/markdown", partial(self._read, name))
        self._add("handbook/page", "text/html", lambda: "<h1>Cars</h1><nav><a href=/>x</a></nav><p>Diesel.")
        self._add("handbook/logo", "image/png", lambda: b"\x89PNG")
        self._add("archive/old", "text/plain", lambda: "Old.")

    def _add(self, path: str, mime_type: str, read: Callable[[], str | bytes]) -> None:
        title = path.rpartition("/")[2].title()
        self.server.resource(f"wiki://{path}", name=path, title=title, mime_type=mime_type)(read)

    def _read(self, name: str) -> str:
        return self.texts[name]

    def app(self) -> ASGIApp:
        app = self.server.streamable_http_app()

        async def with_key(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and (b"authorization", SECRET.encode()) not in scope["headers"]:
                self.refused += 1
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await app(scope, receive, send)

        return with_key


@asynccontextmanager
async def serve(wiki: Wiki) -> AsyncIterator[None]:

    server = uvicorn.Server(
        uvicorn.Config(wiki.app(), port=0, log_config=None, lifespan="on", timeout_graceful_shutdown=1)
    )
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    wiki.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    try:
        yield
    finally:
        server.should_exit = True
        await serving


@pytest.fixture
async def wiki() -> AsyncIterator[Wiki]:
    wiki = Wiki()
    async with serve(wiki):
        yield wiki


async def add(sources: Sources, wiki: Wiki, *, secret: str = SECRET, pattern: str | None = None) -> KnowledgeSource:
    moment = datetime.now(UTC)
    key = McpServerKey(sources.organization_id, mcp_servers.new_mcp_server_id())
    headers = mcp_servers.seal_headers(KEY_RING, key, {"Authorization": secret})
    server = McpServer(
        key.mcp_server_id, key.organization_id, "Wiki", wiki.url, ("Authorization",), headers, moment, "k", moment, "k"
    )
    await mcp_servers.put(sources.database, None, server)
    return await sources.add(SourceKind.MCP, {"mcp_server_id": key.mcp_server_id, "resource_pattern": pattern})


async def test_text_resources_become_entries_and_others_are_skipped(sources: Sources, wiki: Wiki) -> None:
    wiki.texts["broken"] = "Works."
    source = await add(sources, wiki, pattern="wiki://handbook/*")
    run = await sources.run(source)
    assert (run.status, run.counts) == (SourceRunStatus.OK, {"created": 4, "skipped": 2})
    entries = sources.entries.items
    assert entries["wiki://handbook/travel"].title == "Travel"
    assert entries["wiki://handbook/travel"].text == "A night costs 140 euros."
    assert entries["wiki://handbook/page"].text == "# Cars\n\nDiesel."
    assert wiki.refused == 0

    wiki.texts["meals"] = "A meal costs 30 euros."
    del wiki.texts["broken"]
    sources.entries.events.clear()
    run = await sources.run(source)
    assert (run.status, run.removed) == (SourceRunStatus.PARTIAL, 0)
    assert run.counts == {"updated": 1, "unchanged": 2, "failed": 1, "skipped": 2}
    assert sources.entries.events == ["wiki://handbook/meals"]
    assert all(SECRET not in message for message in run.messages)


async def test_a_server_that_refuses_the_headers_or_is_away_is_an_error(sources: Sources, wiki: Wiki) -> None:
    refused = await sources.run(await add(sources, wiki, secret="Bearer wrong"))
    wiki.url = "http://127.0.0.1:9/mcp"
    away = await sources.run(await add(sources, wiki))
    for run in (refused, away):
        assert run.status is SourceRunStatus.ERROR
        assert "MCP server can't be used" in (run.error or "")
        assert "Bearer" not in (run.error or "")


async def test_headers_are_encrypted_with_a_new_key_and_the_old_one_can_go(sources: Sources, wiki: Wiki) -> None:
    source = await add(sources, wiki)
    key = McpServerKey(sources.organization_id, source.config["mcp_server_id"])
    without_headers = replace(await mcp_servers.get(sources.database, key), headers=None, header_names=())
    await mcp_servers.put(sources.database, None, replace(without_headers, mcp_server_id="0" * 24))
    new = {"new": bytes([1]) * 32}

    await McpHeaderKeys(KeyRing({**new, "k": bytes(32)})).reseal(sources.database)
    server = await mcp_servers.get(sources.database, key)
    assert mcp_servers.open_headers(KeyRing(new), server) == {"Authorization": SECRET}
    with pytest.raises(Unreadable):
        mcp_servers.open_headers(KEY_RING, server)

    # What no key opens stays as it is, and does not keep the service from starting.
    await McpHeaderKeys(KeyRing({"other": bytes([2]) * 32})).reseal(sources.database)
    assert await mcp_servers.get(sources.database, key) == server
