"""Which tools a key gets that manage knowledge bases and entries, and what a model reads about them."""

import pytest

from kb_search.mcp.endpoint import MAX_BODY_BYTES
from kb_search.mcp.entry_tools import ENTRY_TOOLS, MAX_WRITTEN_CHARACTERS
from kb_search.mcp.knowledge_base_tools import KNOWLEDGE_BASE_TOOLS
from kb_search.mcp.management_tool import ManagementTool
from kb_search.mcp.management_tools import Management
from kb_shared.http.authentication import Caller
from kb_shared.mongo.api_keys import Scope

ADDRESSES = {"kb_api_url": "http://kb-api", "knowledge_url": "http://kb-knowledge"}
ALL = {tool.name for tool in (*KNOWLEDGE_BASE_TOOLS, *ENTRY_TOOLS)}


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


@pytest.mark.parametrize("tool", [*KNOWLEDGE_BASE_TOOLS, *ENTRY_TOOLS], ids=lambda tool: tool.name)
def test_each_argument_is_described_to_the_model(tool: ManagementTool) -> None:
    described = tool.describe()
    assert len(described.description or "") > 40
    for name, argument in described.input_schema["properties"].items():
        assert argument.get("description", "").endswith("."), name


def test_the_longest_content_fits_into_a_call_however_it_is_escaped() -> None:
    assert MAX_WRITTEN_CHARACTERS * len("\\u0000") < MAX_BODY_BYTES - 5_000
