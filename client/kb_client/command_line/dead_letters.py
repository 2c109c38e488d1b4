"""`kb dlq`: messages that could not be handled."""

from typing import Annotated

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.connection import open_client
from kb_client.command_line.output import AsJson, print_fields, print_json, print_more, print_table
from kb_client.command_line.unusable_request import UnusableRequest

app = command_group("dlq", about="List dead letters, messages that could not be handled, and send them again.")

DeadLetterArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the dead letter, as in `kb dlq list`.")]


@app.command("list", epilog="Example: kb dlq list --topic document-events")
def list_all(
    context: typer.Context,
    *,
    topic: Annotated[str | None, typer.Option("--topic", help="Kafka topic.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Kind of failure.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="Number of rows.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List dead letters, newest first."""
    with open_client(context) as client:
        page = client.dead_letters.list(topic=topic, reason=reason, limit=limit)
    if as_json:
        print_json(page)
        return
    if not page.dead_letters:
        print("There is no dead letter.")
        return
    print_table(
        ("id", "filed", "document", "reason", "sent again"),
        [
            (each.dead_letter_id, each.filed_at, each.document_id, each.reason, each.redriven_at)
            for each in page.dead_letters
        ],
        whole=("id",),
    )
    print_more(len(page.dead_letters), total_count=page.total_count)


@app.command(epilog="Example: kb dlq show 665f1c2e9b1e8a3d4c5b6a79")
def show(context: typer.Context, dead_letter: DeadLetterArgument, *, as_json: AsJson = False) -> None:
    """Show one dead letter, without the content of its message."""
    with open_client(context) as client:
        letters = client.dead_letters.list.iterate()
        found = next((each for each in letters if each.dead_letter_id == dead_letter), None)
    if found is None:
        raise UnusableRequest(f"there is no dead letter {dead_letter!r}; `kb dlq list` shows those that there are")
    if as_json:
        print_json(found)
    else:
        print_fields(found.model_dump())


@app.command(epilog="Example: kb dlq redrive 665f1c2e9b1e8a3d4c5b6a79")
def redrive(context: typer.Context, dead_letter: DeadLetterArgument, *, as_json: AsJson = False) -> None:
    """Send a dead letter to its topic again, after its cause is fixed."""
    with open_client(context) as client:
        sent = client.dead_letters.redrive(dead_letter)
    if as_json:
        print_json(sent)
    else:
        print(f"sent {dead_letter} to {sent.topic} again")
