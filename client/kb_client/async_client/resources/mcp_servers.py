from collections.abc import Mapping

from kb_client.async_client.operation import AsyncResource, listing, operation
from kb_client.call import ApiCall, PageCall
from kb_client.unset import UNSET, Unset, without_unset
from kb_contracts.api.mcp_servers import McpServerList, McpServerView
from kb_contracts.api.model import MessageResponse


class AsyncMcpServers(AsyncResource):
    """MCP servers that sources read resources from."""

    @operation
    def create(self, *, label: str, url: str, headers: Mapping[str, str] | Unset = UNSET) -> ApiCall[McpServerView]:
        """Add an MCP server. Its headers are stored encrypted and never returned."""
        return ApiCall(
            "POST",
            "/mcp-servers",
            McpServerView,
            body=without_unset({"label": label, "url": url, "headers": headers}),
        )

    @listing
    def list(self, *, skip: int | None = None, limit: int | None = None) -> PageCall[McpServerList, McpServerView]:
        """Return a page of the MCP servers, newest first, without the values of their headers."""
        return PageCall(
            "GET",
            "/mcp-servers",
            McpServerList,
            query={"skip": skip, "limit": limit},
            items=lambda page: page.mcp_servers,
        )

    @operation
    def get(self, mcp_server_id: str) -> ApiCall[McpServerView]:
        """Return an MCP server, without the values of its headers."""
        return ApiCall("GET", "/mcp-servers/{mcp_server_id}", McpServerView, ids={"mcp_server_id": mcp_server_id})

    @operation
    def update(
        self,
        mcp_server_id: str,
        *,
        label: str | Unset = UNSET,
        url: str | Unset = UNSET,
        headers: Mapping[str, str] | Unset = UNSET,
    ) -> ApiCall[McpServerView]:
        """Change the given fields. `headers` replaces all of them."""
        return ApiCall(
            "PATCH",
            "/mcp-servers/{mcp_server_id}",
            McpServerView,
            ids={"mcp_server_id": mcp_server_id},
            body=without_unset({"label": label, "url": url, "headers": headers}),
        )

    @operation
    def delete(self, mcp_server_id: str) -> ApiCall[MessageResponse]:
        """Delete an MCP server that no source reads from."""
        return ApiCall("DELETE", "/mcp-servers/{mcp_server_id}", MessageResponse, ids={"mcp_server_id": mcp_server_id})
