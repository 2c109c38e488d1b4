"""`kb dlq`: messages that could not be handled."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.lists import USUAL_ROWS, RowLimit, read_items
from kb_client.command_line.output import print_answer, print_fields, print_more
from kb_client.command_line.output_format import Output
from kb_client.command_line.tables import print_table

if TYPE_CHECKING:
    from kb_client import Client
    from kb_contracts.api.dead_letters import DeadLetterView

app = command_group(
    "dlq", about="List dead letters, messages that could not be handled; send them again or discard them."
)

DeadLetterArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the dead letter, as in `kb dlq list`.")]


@app.command("list", epilog=examples("kb dlq list --open --topic document-events"))
def list_all(
    context: typer.Context,
    *,
    topic: Annotated[str | None, typer.Option("--topic", help="Kafka topic.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Kind of failure.")] = None,
    is_open: Annotated[bool, typer.Option("--open", help="Only those neither sent again nor discarded.")] = False,
    limit: RowLimit = USUAL_ROWS,
    output: Output = "table",
) -> None:
    """List dead letters, newest first."""
    with open_client(context) as client:
        found = read_items(client.dead_letters.list, limit=limit, topic=topic, reason=reason, is_open=is_open or None)
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
        found = client.dead_letters.get(dead_letter)
    print_answer(found, output, id_field="dead_letter_id", show=lambda: print_fields(found.model_dump()))


@app.command(epilog=examples("kb dlq redrive 665f1c2e9b1e8a3d4c5b6a79", "kb dlq redrive --reason unknown-text-ref"))
def redrive(
    context: typer.Context,
    dead_letter: Annotated[
        str | None, typer.Argument(metavar="ID", help="Id of the dead letter. Without it, say which ones.")
    ] = None,
    *,
    topic: Annotated[str | None, typer.Option("--topic", help="All open ones of this Kafka topic.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="All open ones with this kind of failure.")] = None,
    redrive_all: Annotated[bool, typer.Option("--all", help="All open ones.")] = False,
    output: Output = "table",
) -> None:
    """Send dead letters to their topics again, after the cause is fixed: 100 in a second."""
    are_selected = topic is not None or reason is not None or redrive_all
    if (dead_letter is None) != are_selected:
        raise typer.BadParameter("give either the ID of one dead letter, or --topic, --reason or --all")
    if dead_letter is None and output == "ids":
        raise typer.BadParameter("--output ids is only for one dead letter; `kb dlq list --output ids` prints ids")
    with open_client(context) as client:
        if dead_letter is None:
            done = _redrive_many(client, topic=topic, reason=reason)
            print_answer(done, output, show=lambda: print(f"sent {done['redriven_count']:,} messages again"))
            return
        sent = client.dead_letters.redrive(dead_letter)
    print_answer(
        sent, output, id_field="dead_letter_id", show=lambda: print(f"sent {dead_letter} to {sent.topic} again")
    )


@app.command(epilog=examples("kb dlq discard 665f1c2e9b1e8a3d4c5b6a79"))
def discard(context: typer.Context, dead_letter: DeadLetterArgument, *, output: Output = "table") -> None:
    """Mark a dead letter as one that is not to be sent again, so that it does not count as open."""
    with open_client(context) as client:
        discarded = client.dead_letters.discard(dead_letter)
    became = "discarded" if discarded.redriven_at is None else "not discarded, because it was sent again before:"
    print_answer(discarded, output, id_field="dead_letter_id", show=lambda: print(f"{became} {dead_letter}"))


def _redrive_many(client: "Client", *, topic: str | None, reason: str | None) -> dict[str, Any]:
    """Redrive until none is left that can be sent; return the sums of all answers."""
    redriven = 0
    while True:
        answer = client.dead_letters.redrive_many(topic=topic, reason=reason)
        redriven += answer.redriven_count
        if answer.redriven_count == 0 or not answer.are_more_left:
            break
        print(f"sent {redriven:,} messages so far", file=sys.stderr)
    if answer.too_large_count:
        print(f"left {answer.too_large_count:,} that are larger than Kafka accepts", file=sys.stderr)
    if answer.unreadable_count:
        print(f"left {answer.unreadable_count:,} that still can't be read", file=sys.stderr)
    return {**answer.model_dump(), "redriven_count": redriven}


def _print_list(found: "Sequence[DeadLetterView]", *, total_count: int) -> None:
    if not found:
        print("There is no dead letter.")
        return
    print_table(
        ("id", "reason", "document", "filed", "sent again", "discarded"),
        [
            (each.dead_letter_id, each.reason, each.document_id, each.filed_at, each.redriven_at, each.discarded_at)
            for each in found
        ],
        whole=("id", "document"),
    )
    print_more(len(found), total_count=total_count)
