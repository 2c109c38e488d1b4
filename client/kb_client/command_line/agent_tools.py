"""`kb agents tools`: the knowledge bases that an agent searches."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kb_client.command_line.agent_names import AgentArgument, find_agent
from kb_client.command_line.command_group import command_group
from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_base_names import KnowledgeBaseArgument, find_knowledge_base
from kb_client.command_line.output import print_answer
from kb_client.command_line.output_format import Output, OutputFormat
from kb_client.command_line.tables import print_table
from kb_client.command_line.unusable_request import UnusableRequest

if TYPE_CHECKING:
    from kb_contracts.api.agents import AgentView, ToolView

app = command_group("tools", about="List, add, change and remove the tools of an agent.")

ToolArgument = Annotated[str, typer.Argument(metavar="TOOL", help="Name or id of the tool.")]
ToolNameOption = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name by which the model calls the tool.")
]
ToolDescriptionOption = Annotated[
    str | None, typer.Option("--description", metavar="TEXT", help="What the tool is for, for the model.")
]
TopOption = Annotated[int | None, typer.Option("--top", metavar="N", help="Number of matches of a search.")]
MinScoreOption = Annotated[
    float | None, typer.Option("--min-score", metavar="SCORE", help="Smallest relevance of matches, from 0 to 1.")
]


@app.command("list", epilog=examples("kb agents tools list Support"))
def list_all(context: typer.Context, agent: AgentArgument, *, output: Output = "table") -> None:
    """List the tools of an agent."""
    with open_client(context) as client:
        found = find_agent(client, agent)
    _print_agent(found, output)


@app.command(epilog=examples("kb agents tools available Support"))
def available(context: typer.Context, agent: AgentArgument, *, output: Output = "table") -> None:
    """List the knowledge bases that can become tools of an agent."""
    with open_client(context) as client:
        found = client.agents.list_available_knowledge_bases(find_agent(client, agent).agent_id)
    print_answer(
        found,
        output,
        rows="knowledge_bases",
        id_field="kb_id",
        show=lambda: print_table(
            ("name", "id", "status", "documents", "is a tool"),
            [
                (each.name, each.kb_id, each.status, each.document_count, each.is_linked)
                for each in found.knowledge_bases
            ],
            whole=("id",),
        ),
    )


@app.command(epilog=examples("kb agents tools add Support handbook --top 8"))
def add(
    context: typer.Context,
    agent: AgentArgument,
    kb: KnowledgeBaseArgument,
    *,
    name: ToolNameOption = None,
    description: ToolDescriptionOption = None,
    top: TopOption = None,
    min_score: MinScoreOption = None,
    output: Output = "table",
) -> None:
    """Add a knowledge base as a tool."""
    with open_client(context) as client:
        agent_id = find_agent(client, agent).agent_id
        kb_id = find_knowledge_base(client, kb).kb_id
        given = _collect_fields(name=name, description=description, top=top, min_score=min_score)
        changed = client.agents.add_tool(agent_id, kb_id=kb_id, **given)
    _print_agent(changed, output)


@app.command(epilog=examples('kb agents tools edit Support search_handbook --description "Rules for travel"'))
def edit(
    context: typer.Context,
    agent: AgentArgument,
    tool: ToolArgument,
    *,
    name: ToolNameOption = None,
    description: ToolDescriptionOption = None,
    top: TopOption = None,
    min_score: MinScoreOption = None,
    no_min_score: Annotated[bool, typer.Option("--no-min-score", help="As the knowledge base says.")] = False,
    output: Output = "table",
) -> None:
    """Change a tool. What is not named stays as it is."""
    given = _collect_fields(name=name, description=description, top=top, min_score=min_score)
    if no_min_score:
        given["default_min_score"] = None
    if not given:
        raise typer.BadParameter("say what to change, for example --description or --top")
    with open_client(context) as client:
        found = find_agent(client, agent)
        changed = client.agents.update_tool(found.agent_id, tool_id=_find_tool(found, tool).tool_id, **given)
    _print_agent(changed, output)


@app.command(epilog=examples("kb agents tools remove Support search_handbook"))
def remove(context: typer.Context, agent: AgentArgument, tool: ToolArgument, *, output: Output = "table") -> None:
    """Remove a tool from an agent. The knowledge base stays."""
    with open_client(context) as client:
        found = find_agent(client, agent)
        changed = client.agents.remove_tool(found.agent_id, tool_id=_find_tool(found, tool).tool_id)
    _print_agent(changed, output)


def print_tools(agent: "AgentView") -> None:
    """Print the tools of an agent for people."""
    if not agent.tools:
        print(f"It has no tool: kb agents tools add {agent.agent_id} KB")
        return
    print_table(
        ("tool", "id", "knowledge base", "matches", "smallest relevance", "state"),
        [
            (
                each.tool_name,
                each.tool_id,
                each.kb_name or each.kb_id,
                each.default_top_k,
                each.default_min_score,
                "deleted" if each.is_broken else "usable",
            )
            for each in agent.tools
        ],
        whole=("id",),
    )


def _print_agent(agent: "AgentView", output: OutputFormat) -> None:
    print_answer(agent, output, rows="tools", id_field="tool_id", show=lambda: print_tools(agent))


def _collect_fields(
    *, name: str | None, description: str | None, top: int | None, min_score: float | None
) -> dict[str, Any]:
    fields = {
        "tool_name": name,
        "tool_description": description,
        "default_top_k": top,
        "default_min_score": min_score,
    }
    return {field: value for field, value in fields.items() if value is not None}


def _find_tool(agent: "AgentView", tool: str) -> "ToolView":
    """Return a tool by its id, its name, or the name of its knowledge base."""
    for each in agent.tools:
        if tool in (each.tool_id, each.tool_name, each.kb_name, each.kb_id):
            return each
    known = ", ".join(each.tool_name for each in agent.tools) or "none"
    raise UnusableRequest(f"agent {agent.name!r} has no tool {tool!r}; there are: {known}")
