from typing import TYPE_CHECKING, Annotated

import typer

from kb_client.command_line.named_resources import find_named

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.knowledge_sources import KnowledgeSourceView
    from kb_contracts.api.mcp_servers import McpServerView

SourceArgument = Annotated[str, typer.Argument(metavar="SOURCE", help="Label or id of the source.")]
McpServerArgument = Annotated[str, typer.Argument(metavar="SERVER", help="Label or id of the MCP server.")]


def find_source(client: "Client", source: str) -> "KnowledgeSourceView":
    """Return a source by its id or label.

    Raises:
        UnusableRequest: there is none, or several have the label.
    """
    return find_named(
        client.knowledge_sources.list.iterate(),
        source,
        id_field="source_id",
        kind="source",
        name_field="label",
        creation="kb knowledge sources add",
    )


def find_mcp_server(client: "Client", server: str) -> "McpServerView":
    """Return an MCP server by its id or label.

    Raises:
        UnusableRequest: there is none, or several have the label.
    """
    return find_named(
        client.mcp_servers.list.iterate(),
        server,
        id_field="mcp_server_id",
        kind="MCP server",
        name_field="label",
        creation="kb knowledge mcp-servers add",
    )
