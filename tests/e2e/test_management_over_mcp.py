"""Tools over MCP that manage knowledge bases and entries: the services carry them out with the key of the caller."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from tests.e2e.operations.stocking import http_of_new_organization
from tests.e2e.running_system import RunningSystem

MANAGING = {
    "create_knowledge_base",
    "get_knowledge_base",
    "update_knowledge_base",
    "delete_knowledge_base",
    "list_documents",
    "reindex_knowledge_base",
    "get_knowledge_base_stats",
    "create_entry",
    "list_entries",
    "get_entry",
    "update_entry",
}


@asynccontextmanager
async def connected(
    running: RunningSystem, *scopes: str, organization: httpx.AsyncClient | None = None
) -> AsyncIterator[Client]:
    """Connect with a new key of the organization, by default that of the running system."""
    created = await (organization or running.system.http).post(
        "/api-keys", json={"name": "mcp", "scopes": list(scopes)}
    )
    headers = {"Authorization": f"Bearer {created.raise_for_status().json()['api_key']}"}
    url = f"{running.system.stack.base_url}/mcp"
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def called(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool, expect no error and return its fields, which its text shows, too."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert json.loads(text_of(result)) == result.structured_content
    return result.structured_content


def text_of(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def test_a_key_with_write_manages_a_knowledge_base_from_its_creation_to_its_deletion(
    running: RunningSystem,
) -> None:
    tag, other = await running.create_tags(2)
    await running.publish(running.upstream.ocr(f"mcp-{tag}", ["A fence is a write."], tags=[tag]))
    async with connected(running, "read", "search", "write", "admin") as client:
        created = await called(client, "create_knowledge_base", name="Made over MCP", tag_ids=[tag], description="Try")
        kb_id = created["kb_id"]
        await running.system.until_active(kb_id)
        await running.system.until_found(kb_id, [f"mcp-{tag}"])
        listed = await called(client, "list_documents", kb_id=kb_id)
        assert [each["document_id"] for each in listed["documents"]] == [f"mcp-{tag}"]
        assert (await called(client, "get_knowledge_base_stats", kb_id=kb_id))["document_count"] == 1
        await called(client, "update_knowledge_base", kb_id=kb_id, name="Renamed", tag_ids=[tag, other])
        shown = await called(client, "get_knowledge_base", kb_id=kb_id)
        assert (shown["name"], shown["description"], shown["tag_ids"]) == ("Renamed", "Try", [tag, other])
        await called(client, "reindex_knowledge_base", kb_id=kb_id)
        await called(client, "delete_knowledge_base", kb_id=kb_id)
        gone = await client.call_tool("get_knowledge_base", {"kb_id": kb_id})
        assert gone.is_error


async def test_a_key_without_write_neither_sees_nor_calls_them(running: RunningSystem) -> None:
    async with connected(running, "read", "search") as client:
        assert MANAGING.isdisjoint(tool.name for tool in (await client.list_tools()).tools)
        for tool in MANAGING:
            refused = await client.call_tool(tool, {"kb_id": "65f1c2a3b4d5e6f708192a3b"})
            assert (refused.is_error, "Unknown tool" in text_of(refused)) == (True, True)


async def test_errors_say_what_to_do(running: RunningSystem) -> None:
    async with connected(running, "read", "write") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} >= MANAGING
        unknown = await client.call_tool("get_knowledge_base", {"kb_id": "65f1c2a3b4d5e6f708192a3b"})
        assert (unknown.is_error, "knowledge base" in text_of(unknown)) == (True, True)
        for arguments in ({"name": "No tags"}, {"name": "", "tag_ids": ["a"]}, {"name": "x", "tag_ids": ["a"], "y": 1}):
            refused = await client.call_tool("create_knowledge_base", arguments)
            assert (refused.is_error, "arguments can't be used" in text_of(refused)) == (True, True)


async def test_a_key_with_write_writes_an_entry_that_searches_find_and_only_admin_deletes_it(
    running: RunningSystem,
) -> None:
    async with http_of_new_organization(running) as organization:
        await write_entry(running, organization)


async def write_entry(running: RunningSystem, organization: httpx.AsyncClient) -> None:
    entry_id, longest = "hotels", "Hotels in Oslo: at most 210 euros. " * 600
    async with connected(running, "read", "search", "write", organization=organization) as client:
        created = await called(
            client,
            "create_entry",
            entry_id=entry_id,
            title="Hotels in Oslo",
            content="At most 180 euros.",
            type="rule",
            embedding_text="What may a night in Oslo cost?",
        )
        assert (created["entry_id"], created["type"], created["embedding_status"]) == (entry_id, "rule", "pending")
        again = await client.call_tool("create_entry", {"entry_id": entry_id, "title": "Again", "content": "Again."})
        assert (again.is_error, "has an entry with this entry_id" in text_of(again)) == (True, True)
        secret = await client.call_tool("create_entry", {"title": "Vault", "content": "password = hunter2-Xy77-kk"})
        assert (secret.is_error, "Remove the credential" in text_of(secret)) == (True, True)
        changed = await called(
            client,
            "update_entry",
            entry_id=entry_id,
            content=longest[:20_000],
            embedding_text=None,  # otherwise the content would be too long
            revision=created["revision"],
        )
        stale = await client.call_tool(
            "update_entry", {"entry_id": entry_id, "title": "x", "revision": created["revision"]}
        )
        assert (stale.is_error, "was changed since" in text_of(stale)) == (True, True)
        read = await called(client, "get_entry", entry_id=entry_id)
        assert (read["content"], read["next_start"], read["embedding_text"]) == (longest[:20_000], None, None)
        assert (read["title"], read["revision"]) == ("Hotels in Oslo", changed["revision"])
        listed = await called(client, "list_entries", contains="hotels in oslo", source_type="rule")
        assert [each["entry_id"] for each in listed["entries"]] == [entry_id]
        refused = await client.call_tool("delete_entry", {"entry_id": entry_id})
        assert (refused.is_error, "Unknown tool" in text_of(refused)) == (True, True)
    async with connected(running, "admin", organization=organization) as client:
        await called(client, "delete_entry", entry_id=entry_id)
        assert (await client.call_tool("get_entry", {"entry_id": entry_id})).is_error
