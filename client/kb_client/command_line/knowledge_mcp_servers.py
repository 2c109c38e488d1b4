"""`kb knowledge mcp-servers`: MCP servers that sources read resources from."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.confirmation import confirm
from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.lists import USUAL_ROWS, RowLimit, read_items
from kb_client.command_line.output import print_answer, print_fields, print_more
from kb_client.command_line.output_format import Output, OutputFormat
from kb_client.command_line.source_names import McpServerArgument, find_mcp_server
from kb_client.command_line.tables import print_table
from kb_client.command_line.unusable_request import UnusableRequest
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_contracts.api.mcp_servers import McpServerView

app = command_group("mcp-servers", about="MCP servers that sources read resources from.")

HeaderOption = Annotated[
    list[str] | None,
    typer.Option(
        "--header-from",
        metavar="NAME=VARIABLE",
        help="Header to send, whose value is in this environment variable. May be repeated.",
    ),
]


@app.command("list", epilog=examples("kb knowledge mcp-servers list"))
def list_all(context: typer.Context, *, limit: RowLimit = USUAL_ROWS, output: Output = "table") -> None:
    """List the MCP servers, without the values of their headers."""
    with open_client(context) as client:
        found = read_items(client.mcp_servers.list, limit=limit)
    print_answer(
        found.to_json("mcp_servers"),
        output,
        rows="mcp_servers",
        id_field="mcp_server_id",
        show=lambda: _print_list(found.items, total_count=found.total_count),
    )


@app.command(
    epilog=examples(
        "kb knowledge mcp-servers add Wiki https://wiki.example.com/mcp --header-from Authorization=WIKI_AUTHORIZATION"
    )
)
def add(
    context: typer.Context,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="Name that people see.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of its streamable HTTP endpoint.")],
    *,
    header_from: HeaderOption = None,
    output: Output = "table",
) -> None:
    """Add an MCP server. The values of headers are stored encrypted, and never shown again."""
    headers = _read_headers(header_from)
    with open_client(context) as client:
        created = client.mcp_servers.create(label=label, url=url, headers=UNSET if headers is None else headers)
    _print_server(created, output)


@app.command(epilog=examples("kb knowledge mcp-servers get Wiki"))
def get(context: typer.Context, server: McpServerArgument, *, output: Output = "table") -> None:
    """Show an MCP server, without the values of its headers."""
    with open_client(context) as client:
        found = find_mcp_server(client, server)
    _print_server(found, output)


@app.command(
    epilog=examples(
        "kb knowledge mcp-servers edit Wiki --label Handbook",
        "kb knowledge mcp-servers edit Wiki --header-from Authorization=WIKI_AUTHORIZATION",
    )
)
def edit(
    context: typer.Context,
    server: McpServerArgument,
    *,
    label: Annotated[str | None, typer.Option("--label", metavar="LABEL", help="New label.")] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="New address. Headers are not sent to another server: name them, too."
        ),
    ] = None,
    header_from: HeaderOption = None,
    output: Output = "table",
) -> None:
    """Change an MCP server. What is not named stays as it is; headers that are named replace all."""
    fields = {"label": label, "url": url, "headers": _read_headers(header_from)}
    given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    if not given:
        raise typer.BadParameter("say what to change, for example --url or --header-from")
    with open_client(context) as client:
        changed = client.mcp_servers.update(find_mcp_server(client, server).mcp_server_id, **given)
    _print_server(changed, output)


@app.command(epilog=examples("kb knowledge mcp-servers delete Wiki --yes"))
def delete(
    context: typer.Context,
    server: McpServerArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Output = "table",
) -> None:
    """Delete an MCP server that no source reads from."""
    with open_client(context) as client:
        found = find_mcp_server(client, server)
        confirm(f"Delete the MCP server {found.label!r}?", yes=yes)
        answer = client.mcp_servers.delete(found.mcp_server_id)
    print_answer(
        {"mcp_server_id": found.mcp_server_id, **answer.model_dump()},
        output,
        id_field="mcp_server_id",
        show=lambda: print(f"deleted {found.label} ({found.mcp_server_id})"),
    )


def _read_headers(named: list[str] | None) -> dict[str, str] | None:
    """Return headers with their values, which are in no list of processes.

    Raises:
        UnusableRequest: a variable is not set.
    """
    if named is None:
        return None
    headers = {}
    for each in named:
        header, _, variable = each.partition("=")
        if not variable:
            raise typer.BadParameter(f"{each} should be NAME=VARIABLE, such as Authorization=WIKI_AUTHORIZATION")
        if not os.environ.get(variable):
            raise UnusableRequest(f"the environment variable {variable} is not set")
        headers[header] = os.environ[variable]
    return headers


def _print_list(found: "Sequence[McpServerView]", *, total_count: int) -> None:
    if not found:
        print("There is no MCP server. `kb knowledge mcp-servers add` adds one.")
        return
    print_table(
        ("label", "id", "address", "headers"),
        [(each.label, each.mcp_server_id, each.url, each.header_names) for each in found],
        whole=("id",),
    )
    print_more(len(found), total_count=total_count)


def _print_server(server: "McpServerView", output: OutputFormat) -> None:
    def show() -> None:
        print_fields(
            {
                "id": server.mcp_server_id,
                "label": server.label,
                "address": server.url,
                "headers": server.header_names,
                "changed": server.updated_at,
            }
        )

    print_answer(server, output, id_field="mcp_server_id", show=show)
