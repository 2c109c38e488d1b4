"""`kb dlq`: messages that could not be handled."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.lists import USUAL_ROWS, RowLimit, read_items
from kb_client.command_line.output import print_answer, print_fields, print_more, print_table
from kb_client.command_line.output_format import Output
from kb_client.command_line.unusable_request import UnusableRequest

if TYPE_CHECKING:
    from kb_contracts.api.dead_letters import DeadLetterView

app = command_group("dlq", about="List dead letters, messages that could not be handled, and send them again.")

DeadLetterArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the dead letter, as in `kb dlq list`.")]


@app.command("list", epilog=examples("kb dlq list --topic document-events"))
def list_all(
    context: typer.Context,
    *,
    topic: Annotated[str | None, typer.Option("--topic", help="Kafka topic.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Kind of failure.")] = None,
    limit: RowLimit = USUAL_ROWS,
    output: Output = "table",
) -> None:
    """List dead letters, newest first."""
    with open_client(context) as client:
        found = read_items(client.dead_letters.list, limit=limit, topic=topic, reason=reason)
    print_answer(
        found.to_json("dead_letters"),
        output,
        rows="dead_letters",
        id_field="dead_letter_id",
        show=lambda: _print_list(found.items, total_count=found.total_count),
    )


@app.command(epilog=examples("kb dlq show 665f1c2e9b1e8a3d4c5b6a79"))
def show(context: typer.Context, dead_letter: DeadLetterArgument, *, output: Output = "table") -> None:
    """Show one dead letter, without the content of its message."""
    with open_client(context) as client:
        letters = client.dead_letters.list.iterate()
        found = next((each for each in letters if each.dead_letter_id == dead_letter), None)
    if found is None:
        raise UnusableRequest(f"there is no dead letter {dead_letter!r}; `kb dlq list` shows those that there are")
    print_answer(found, output, id_field="dead_letter_id", show=lambda: print_fields(found.model_dump()))


@app.command(epilog=examples("kb dlq redrive 665f1c2e9b1e8a3d4c5b6a79"))
def redrive(context: typer.Context, dead_letter: DeadLetterArgument, *, output: Output = "table") -> None:
    """Send a dead letter to its topic again, after its cause is fixed."""
    with open_client(context) as client:
        sent = client.dead_letters.redrive(dead_letter)
    print_answer(
        sent, output, id_field="dead_letter_id", show=lambda: print(f"sent {dead_letter} to {sent.topic} again")
    )


def _print_list(found: "Sequence[DeadLetterView]", *, total_count: int) -> None:
    if not found:
        print("There is no dead letter.")
        return
    print_table(
        ("id", "filed", "document", "reason", "sent again"),
        [(each.dead_letter_id, each.filed_at, each.document_id, each.reason, each.redriven_at) for each in found],
        whole=("id",),
    )
    print_more(len(found), total_count=total_count)
