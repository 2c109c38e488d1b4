"""`kb agents`: chat models with instructions and tools."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kb_client.command_line import agent_tools
from kb_client.command_line.agent_names import AgentArgument, find_agent
from kb_client.command_line.agent_tools import print_tools
from kb_client.command_line.command_group import command_group
from kb_client.command_line.confirmation import confirm
from kb_client.command_line.connection import open_client
from kb_client.command_line.definitions import (
    AutoSearchOption,
    StoredModelOption,
    edit_text,
    read_definition,
    read_text,
)
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.lists import USUAL_ROWS, RowLimit, read_items
from kb_client.command_line.output import print_answer, print_fields, print_more
from kb_client.command_line.output_format import Output, OutputFormat
from kb_client.command_line.tables import print_table
from kb_client.command_line.unusable_request import UnusableRequest
from kb_client.errors import ApiError

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.agents import AgentView

app = command_group("agents", about="Create and change agents: chat models with instructions and tools.")
app.add_typer(agent_tools.app)

_FIELDS: Final = (
    "name",
    "instructions",
    "model",
    "max_iterations",
    "auto_search",
    "temperature",
    "max_output_tokens",
    "injection",
)
_TOOL_FIELDS: Final = ("kb_id", "tool_name", "tool_description", "default_top_k", "default_min_score")
_OF_SERVER: Final = ("agent_id", "created_at", "updated_at", "created_by", "updated_by")

AgentFileOption = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE", help="JSON as `kb agents show --json` prints it; - for standard input."),
]
InstructionsOption = Annotated[
    str | None, typer.Option("--instructions", metavar="TEXT", help="Instructions for the model.")
]
InstructionsFileOption = Annotated[
    Path | None,
    typer.Option("--instructions-file", metavar="FILE", help="File with the instructions; - for standard input."),
]
MaxIterationsOption = Annotated[
    int | None, typer.Option("--max-iterations", metavar="N", help="Greatest number of calls of the model in a run.")
]
TemperatureOption = Annotated[
    float | None,
    typer.Option("--temperature", metavar="T", help="How freely the model chooses words, 0 to 2. Default: 0.2."),
]
MaxOutputTokensOption = Annotated[
    int | None, typer.Option("--max-output-tokens", metavar="N", help="Greatest number of tokens of one answer.")
]


@app.command("list", epilog=examples("kb agents list"))
def list_all(context: typer.Context, *, limit: RowLimit = USUAL_ROWS, output: Output = "table") -> None:
    """List agents."""
    with open_client(context) as client:
        found = read_items(client.agents.list, limit=limit)
    print_answer(
        found.to_json("agents"),
        output,
        rows="agents",
        id_field="agent_id",
        show=lambda: _print_list(found.items, total_count=found.total_count),
    )


@app.command(epilog=examples("kb agents show Support", "kb agents show Support --json > support.json"))
def show(context: typer.Context, agent: AgentArgument, *, output: Output = "table") -> None:
    """Show an agent with its instructions and tools."""
    with open_client(context) as client:
        found = find_agent(client, agent)
    _print_agent(found, output)


@app.command(
    epilog=examples(
        'kb agents create Support --instructions "Answer briefly." --kb handbook',
        "kb agents create --file support.json",
    )
)
def create(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name; may be in the file instead.")] = None,
    *,
    file: AgentFileOption = None,
    instructions: InstructionsOption = None,
    instructions_file: InstructionsFileOption = None,
    model: StoredModelOption = None,
    max_iterations: MaxIterationsOption = None,
    auto_search: AutoSearchOption = None,
    temperature: TemperatureOption = None,
    max_output_tokens: MaxOutputTokensOption = None,
    kb: Annotated[
        list[str] | None, typer.Option("--kb", metavar="KB", help="Knowledge base to add as a tool. May be repeated.")
    ] = None,
    output: Output = "table",
) -> None:
    """Create an agent from options, a file, or a file and options, which then count more."""
    given = read_definition(file, fields=(*_FIELDS, "tools"), ignored=_OF_SERVER) | _collect_fields(
        name=name,
        instructions=instructions,
        instructions_file=instructions_file,
        model=model,
        max_iterations=max_iterations,
        auto_search=auto_search,
        temperature=temperature,
        max_output_tokens=max_output_tokens,
    )
    tools = given.pop("tools", [])
    if not given.get("name"):
        raise typer.BadParameter("an agent needs a name")
    with open_client(context) as client:
        # Before anything is created.
        tools = [*tools, *({"kb_id": find_knowledge_base(client, each).kb_id} for each in kb or [])]
        created = client.agents.create(**given)
        for each in tools:
            created = _add_tool(client, created, each)
    _print_agent(created, output)


@app.command(epilog=examples("kb agents edit Support", "kb agents edit Support --model gpt-5.2 --max-iterations 3"))
def edit(
    context: typer.Context,
    agent: AgentArgument,
    *,
    name: Annotated[str | None, typer.Option("--name", help="New name.")] = None,
    file: AgentFileOption = None,
    instructions: InstructionsOption = None,
    instructions_file: InstructionsFileOption = None,
    model: StoredModelOption = None,
    max_iterations: MaxIterationsOption = None,
    auto_search: AutoSearchOption = None,
    temperature: TemperatureOption = None,
    max_output_tokens: MaxOutputTokensOption = None,
    output: Output = "table",
) -> None:
    """Change an agent. What is not named stays as it is; without options, an editor opens with the instructions.

    A change that somebody else makes while the editor is open is not overwritten. `kb agents tools` changes tools.
    """
    given = read_definition(file, fields=_FIELDS, ignored=(*_OF_SERVER, "tools")) | _collect_fields(
        name=name,
        instructions=instructions,
        instructions_file=instructions_file,
        model=model,
        max_iterations=max_iterations,
        auto_search=auto_search,
        temperature=temperature,
        max_output_tokens=max_output_tokens,
    )
    with open_client(context) as client:
        found = client.agents.get.with_raw_response(find_agent(client, agent).agent_id)
        if not given:
            given = {"instructions": edit_text(found.parsed.instructions)}
        changed = client.agents.update(found.parsed.agent_id, **given, if_match=found.etag)
    _print_agent(changed, output)


@app.command(epilog=examples("kb agents delete Support --yes"))
def delete(
    context: typer.Context,
    agent: AgentArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Output = "table",
) -> None:
    """Delete an agent. Its runs stay."""
    with open_client(context) as client:
        found = find_agent(client, agent)
        confirm(f"Delete the agent {found.name!r}?", yes=yes)
        answer = client.agents.delete(found.agent_id)
    print_answer(
        {"agent_id": found.agent_id, **answer.model_dump()},
        output,
        id_field="agent_id",
        show=lambda: print(f"deleted {found.name} ({found.agent_id})"),
    )


def _collect_fields(
    *,
    name: str | None,
    instructions: str | None,
    instructions_file: Path | None,
    model: str | None,
    max_iterations: int | None,
    auto_search: bool | None,
    temperature: float | None,
    max_output_tokens: int | None,
) -> dict[str, Any]:
    """Return the fields of the API that the options set."""
    if instructions is not None and instructions_file is not None:
        raise typer.BadParameter("pass --instructions or --instructions-file, not both")
    fields = {
        "name": name,
        "instructions": instructions if instructions_file is None else read_text(instructions_file),
        "model": model,
        "max_iterations": max_iterations,
        "auto_search": auto_search,
        "temperature": temperature,
        "max_output_tokens": max_output_tokens,
    }
    return {field: value for field, value in fields.items() if value is not None}


def _add_tool(client: "Client", agent: "AgentView", tool: Mapping[str, Any]) -> "AgentView":
    if not isinstance(tool, Mapping) or "kb_id" not in tool:
        raise UnusableRequest(f"agent {agent.name!r} was created; a tool in the file has no kb_id")
    given = {name: value for name, value in tool.items() if name in _TOOL_FIELDS and value is not None}
    try:
        return client.agents.add_tool(agent.agent_id, **given)
    except ApiError as error:
        raise UnusableRequest(
            f"agent {agent.name!r} ({agent.agent_id}) was created; the tool for knowledge base {tool['kb_id']} was"
            f" refused: {error}. Add it with: kb agents tools add {agent.agent_id} KB"
        ) from None


def _print_list(found: "Sequence[AgentView]", *, total_count: int) -> None:
    if not found:
        print("There is no agent. `kb agents create` creates one.")
        return
    print_table(
        ("name", "id", "model", "tools", "changed"),
        [
            (each.name, each.agent_id, each.model, [tool.tool_name for tool in each.tools], each.updated_at)
            for each in found
        ],
        whole=("id",),
    )
    print_more(len(found), total_count=total_count)


def _print_agent(found: "AgentView", output: OutputFormat) -> None:
    print_answer(found, output, id_field="agent_id", show=lambda: _print_settings(found))


def _print_settings(found: "AgentView") -> None:
    print_fields(
        {
            "name": found.name,
            "id": found.agent_id,
            "model": found.model,
            "calls of the model": "as the deployment says" if found.max_iterations is None else found.max_iterations,
            "searches first": "yes" if found.auto_search else "no",
            "temperature": "usual" if found.temperature is None else found.temperature,
            "tokens of an answer": "as the deployment says"
            if found.max_output_tokens is None
            else found.max_output_tokens,
            "changed": found.updated_at,
            "instructions": found.instructions or None,
        }
    )
    print()
    print_tools(found)
