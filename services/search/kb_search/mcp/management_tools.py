"""Calls the tools of the MCP endpoint that manage knowledge bases and entries, for keys with the scope `write`.

kb-api and kb-knowledge carry them out, with the key of the caller: their checks, limits, quotas and audit log are
those of the HTTP API.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx
import structlog
from mcp_types import CallToolResult, TextContent, Tool

from kb_client.async_client.client import AsyncClient
from kb_client.errors import ApiError, KbClientError
from kb_search.mcp.entry_tools import ENTRY_TOOLS
from kb_search.mcp.knowledge_base_tools import KNOWLEDGE_BASE_TOOLS
from kb_search.mcp.management_tool import ManagementTool
from kb_search.runs.lenient_arguments import read_arguments
from kb_search.runs.passages import remove_invisible_characters
from kb_shared.http.authentication import Caller
from kb_shared.providers.public_transport import tls_context

TIMEOUT_S: Final = 20.0
_UNAVAILABLE: Final = "Nothing can be managed at the moment. Try again in a minute; searching still works."

log = structlog.get_logger()


class Management:
    """Carries out the management tools of one process through the services that own what they manage."""

    def __init__(self, *, kb_api_url: str | None, knowledge_url: str | None) -> None:
        """Construct it. A service without an address has no tools."""
        self._url_and_tool = _by_name(kb_api_url, KNOWLEDGE_BASE_TOOLS) | _by_name(knowledge_url, ENTRY_TOOLS)
        # The addresses are those of the deployment, not of a user.
        self._http = httpx.AsyncClient(  # nosemgrep: provider-called-without-guard
            timeout=TIMEOUT_S, trust_env=False, verify=tls_context()
        )

    def available_to(self, caller: Caller) -> Sequence[Tool]:
        """Return the tools that the caller can call, with their descriptions."""
        return [tool.describe() for _, tool in self._url_and_tool.values() if caller.has_scope(tool.scope)]

    def has_tool(self, name: str, *, of: Caller | None = None) -> bool:
        """Return whether there is a tool of this name, for any caller or for one."""
        _, tool = self._url_and_tool.get(name, (None, None))
        return tool is not None and (of is None or of.has_scope(tool.scope))

    async def call(self, caller: Caller, key: str, *, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool that the caller may call, with the key of the caller.

        Raises:
            UnusableCall: The arguments are not those of the tool.
        """
        url, tool = self._url_and_tool[name]
        read = read_arguments(tool.arguments, arguments, ignores_unknown=tool.is_read_only)
        parsed = read.arguments
        client = AsyncClient(
            url, organization=caller.organization_id, api_key=key, timeout_s=TIMEOUT_S, http=self._http
        )
        try:
            answer = await tool.operation(client, parsed)
        except ApiError as error:
            return CallToolResult(content=[TextContent(text=_explain(error))], is_error=True)
        except KbClientError as error:
            log.warning("mcp.management_unavailable", tool=name, error=type(error).__name__)
            return CallToolResult(content=[TextContent(text=_UNAVAILABLE)], is_error=True)
        fields = answer.model_dump(mode="json")
        text = remove_invisible_characters(json.dumps(fields, ensure_ascii=False, indent=1))
        blocks = [text, *(f"({note})" for note in read.notes)]
        return CallToolResult(content=[TextContent(text=block) for block in blocks], structured_content=fields)

    async def close(self) -> None:
        await self._http.aclose()


def _by_name(url: str | None, tools: Sequence[ManagementTool]) -> dict[str, tuple[str, ManagementTool]]:
    return {} if url is None else {tool.name: (url, tool) for tool in tools}


def _explain(error: ApiError) -> str:
    fields = "".join(f" {each.field}: {each.message}." for each in error.fields)
    return f"{error.detail}{fields}"
