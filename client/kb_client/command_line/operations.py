"""`kb operations`: what is open, waits, is paused or is broken in the organization."""

import typer

from kb_client.command_line.connection import open_client
from kb_client.command_line.output import AsJson, print_fields, print_json


def register(app: typer.Typer) -> None:
    """Add the command to `kb`."""
    app.command(epilog="Example: kb operations")(operations)


def operations(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Show what is open, waits, is paused or is broken."""
    with open_client(context) as client:
        found = client.operations.get()
    if as_json:
        print_json(found)
        return
    print_fields(
        {
            "documents": [f"{each.count:,} {each.state}, since {each.oldest_at:%Y-%m-%d %H:%M}" for each in found.jobs],
            "they wait for": [f"{each.error_type}: {each.count:,}" for each in found.waiting],
            "running jobs": found.running_jobs,
            "paused knowledge bases": [each.name for each in found.paused_knowledge_bases],
            "paused providers": [each.provider for each in found.paused_providers],
            "failed knowledge bases": [f"{each.name}: {each.reason}" for each in found.failed_knowledge_bases],
            "models not called": [f"{each.model}: {each.cause}" for each in found.unusable_models],
            "dead letters": found.dead_letters,
            "unsendable messages": found.unsendable_messages,
        }
    )
