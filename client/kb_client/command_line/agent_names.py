from typing import TYPE_CHECKING, Annotated

import typer

from kb_client.command_line.named_resources import find_named

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.agents import AgentView

AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", help="Name or id of the agent.")]


def find_agent(client: "Client", agent: str) -> "AgentView":
    """Return an agent by its id or name.

    Raises:
        UnusableRequest: there is none, or several have the name.
    """
    return find_named(client.agents.list.iterate(), agent, id_field="agent_id", kind="agent")
