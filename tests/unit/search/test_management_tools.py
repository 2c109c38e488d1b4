"""Which tools a key gets that manage knowledge bases and entries, and what a model reads about them."""

import json
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from kb_client.async_client.client import AsyncClient
from kb_contracts.api.knowledge_entries import EntryView
from kb_search.mcp.endpoint import MAX_BODY_BYTES
from kb_search.mcp.entry_tools import ENTRY_TOOLS, MAX_WRITTEN_CHARACTERS
from kb_search.mcp.knowledge_base_tools import KNOWLEDGE_BASE_TOOLS
from kb_search.mcp.management_tool import ManagementTool
from kb_search.mcp.management_tools import Management
from kb_shared.http.authentication import Caller
from kb_shared.mongo.api_keys import Scope

ADDRESSES = {"kb_api_url": "http://kb-api", "knowledge_url": "http://kb-knowledge"}
TOOLS = {tool.name: tool for tool in (*KNOWLEDGE_BASE_TOOLS, *ENTRY_TOOLS)}
ALL = set(TOOLS)


def names_for(*scopes: Scope, **addresses: str | None) -> set[str]:
    management = Management(**(ADDRESSES | addresses))
    caller = Caller("acme", "key", frozenset(scopes))
    available = {tool.name for tool in management.available_to(caller)}
    assert available == {name for name in ALL if management.has_tool(name, of=caller)}
    return available


def test_a_key_gets_the_tools_that_its_scopes_allow() -> None:
    assert names_for(Scope.READ, Scope.SEARCH) == set()
    assert names_for(Scope.WRITE) == ALL - {"delete_entry"}
    assert names_for(Scope.ADMIN) == ALL


def test_a_service_without_an_address_has_no_tools() -> None:
    assert names_for(Scope.ADMIN, knowledge_url=None) == {tool.name for tool in KNOWLEDGE_BASE_TOOLS}
    assert names_for(Scope.ADMIN, kb_api_url=None) == {tool.name for tool in ENTRY_TOOLS}


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_each_argument_is_described_to_the_model(tool: ManagementTool) -> None:
    described = tool.describe()
    assert len(described.description or "") > 40
    for name, argument in described.input_schema["properties"].items():
        assert argument.get("description", "").endswith("."), name


def test_the_longest_content_fits_into_a_call_however_it_is_escaped() -> None:
    assert MAX_WRITTEN_CHARACTERS * len("\\u0000") < MAX_BODY_BYTES - 5_000


async def call(tool: str, arguments: dict[str, Any], *, stored: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """Call a tool on an API that has one entry; return the body of the request and the answer."""
    bodies = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content or "null"))
        [entry] = EntryView.model_json_schema()["examples"]
        return httpx.Response(200, json=entry | (stored or {}))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        client = AsyncClient("http://api", organization="acme", api_key="key", http=http)
        answered = await TOOLS[tool].operation(client, TOOLS[tool].arguments.model_validate(arguments))
    [body] = bodies
    return body, answered.model_dump()


async def test_null_removes_what_may_be_absent_and_what_is_left_out_stays() -> None:
    removed = {"knowledge_type": None, "info_type": None, "entity_id": None, "embedding_text": None}
    assert (await call("update_entry", {"entry_id": "hotels", "title": "Hotels", **removed}))[0] == {
        "title": "Hotels",
        **removed,
    }
    assert (await call("update_entry", {"entry_id": "hotels", "revision": None}))[0] == {}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("update_entry", {"entry_id": "hotels", "title": None}),
        ("update_entry", {"entry_id": "hotels", "tags": None}),
        ("update_knowledge_base", {"kb_id": "65f1c2a3b4d5e6f708192a3b", "description": None}),
    ],
)
async def test_null_is_refused_for_what_must_be_there(tool: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        await call(tool, arguments)


def test_the_schema_has_null_only_where_it_removes_something() -> None:
    nullable = {
        (tool.name, name)
        for tool in TOOLS.values()
        for name, argument in tool.describe().input_schema["properties"].items()
        if {"type": "null"} in argument.get("anyOf", ())
    }
    assert nullable == {
        ("update_entry", name) for name in ("knowledge_type", "info_type", "entity_id", "embedding_text")
    }


async def test_the_embedding_text_of_an_entry_is_written_and_read() -> None:
    written = {"title": "Hotels", "content": "At most 180 euros.", "embedding_text": "What may a hotel cost?"}
    assert (await call("create_entry", written))[0] == written | {"type": "note", "tags": []}
    _, read = await call("get_entry", {"entry_id": "hotels"}, stored=written)
    assert read["embedding_text"] == "What may a hotel cost?"
