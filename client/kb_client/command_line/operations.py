"""`kb operations`: what is open, waits, is paused or is broken in the organization, and what is searched."""

from typing import TYPE_CHECKING

import typer

from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.output import print_answer, print_fields
from kb_client.command_line.output_format import OutputWithoutIds

if TYPE_CHECKING:
    from kb_contracts.api.operations import OperationsView


def register(app: typer.Typer) -> None:
    """Add the command to `kb`."""
    app.command(epilog=examples("kb operations"))(operations)


def operations(context: typer.Context, *, output: OutputWithoutIds = "table") -> None:
    """Show what is open, waits, is paused or is broken, and what is searched most."""
    with open_client(context) as client:
        found = client.operations.get()
    print_answer(found, output, show=lambda: _print_operations(found))


def _print_operations(found: "OperationsView") -> None:
    print_fields(
        {
            "documents": [
                f"{each.count:,} {each.state}, the oldest of them requested at {each.oldest_at:%Y-%m-%d %H:%M %Z}"
                for each in found.jobs
            ],
            "they wait for": [f"{each.error_type}: {each.count:,}" for each in found.waiting],
            "running jobs": found.running_jobs,
            "paused knowledge bases": [each.name for each in found.paused_knowledge_bases],
            "paused providers": [each.provider for each in found.paused_providers],
            "failed knowledge bases": [f"{each.name}: {each.reason}" for each in found.failed_knowledge_bases],
            "most searched in 7 days": [f"{each.name}: {each.searches:,}" for each in found.most_searched],
            "models not called": [f"{each.model}: {each.cause}" for each in found.unusable_models],
            "dead letters": found.dead_letters,
            "unsendable messages": found.unsendable_messages,
        }
    )
