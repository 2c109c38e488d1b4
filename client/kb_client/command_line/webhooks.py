"""`kb webhooks`: addresses to which events are sent."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.lists import USUAL_ROWS, RowLimit, read_items
from kb_client.command_line.output import print_answer, print_more, print_table
from kb_client.command_line.output_format import Output
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_contracts.api.webhooks import WebhookView

app = command_group("webhooks", about="Have events sent to an address.")

WebhookArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the webhook, as in `kb webhooks list`.")]


@app.command("list", epilog=examples("kb webhooks list"))
def list_all(context: typer.Context, *, limit: RowLimit = USUAL_ROWS, output: Output = "table") -> None:
    """List the webhooks, without their secrets."""
    with open_client(context) as client:
        found = read_items(client.webhooks.list, limit=limit)
    print_answer(
        found.to_json("webhooks"),
        output,
        rows="webhooks",
        id_field="webhook_id",
        show=lambda: _print_list(found.items, total_count=found.total_count),
    )


@app.command(epilog=examples("kb webhooks create https://example.com/hook --type document.index_failed.v1"))
def create(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address that gets the events by POST.")],
    *,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type of event. May be repeated.")
    ] = None,
    kb: Annotated[
        list[str] | None, typer.Option("--kb", metavar="KB", help="Only this knowledge base. May be repeated.")
    ] = None,
    description: Annotated[str | None, typer.Option("--description", help="Text for people.")] = None,
    output: Output = "table",
) -> None:
    """Send the events that happen from now on to an address. The secret is shown only this once."""
    with open_client(context) as client:
        created = client.webhooks.create(
            url,
            description=UNSET if description is None else description,
            event_types=types or UNSET,
            kb_ids=[find_knowledge_base(client, each).kb_id for each in kb] if kb else UNSET,
        )
    text = f"{created.webhook_id}\n{created.secret}\n\nKeep the secret now: it is not shown again."
    print_answer(created, output, id_field="webhook_id", show=lambda: print(text))


@app.command("test", epilog=examples("kb webhooks test 65f1c2a3b4d5e6f708192a61"))
def send_test(context: typer.Context, webhook: WebhookArgument, *, output: Output = "table") -> None:
    """Send a test event. The exit status is 1 unless the receiver takes it."""
    with open_client(context) as client:
        tested = client.webhooks.test(webhook)
    answer = "no answer" if tested.status is None else f"status {tested.status}"
    outcome = "delivered" if tested.delivered else f"not delivered ({tested.error})"
    text = f"{outcome}: {answer} after {tested.duration_ms:,.0f} ms"
    fields = {"webhook_id": webhook, **tested.model_dump()}
    print_answer(fields, output, id_field="webhook_id", show=lambda: print(text))
    if not tested.delivered:
        raise typer.Exit(1)


@app.command(epilog=examples("kb webhooks delete 65f1c2a3b4d5e6f708192a61"))
def delete(context: typer.Context, webhook: WebhookArgument, *, output: Output = "table") -> None:
    """Delete a webhook with its deliveries."""
    with open_client(context) as client:
        deleted = client.webhooks.delete(webhook)
    fields = {"webhook_id": webhook, **deleted.model_dump()}
    print_answer(fields, output, id_field="webhook_id", show=lambda: print(f"deleted {webhook}"))


def _print_list(found: "Sequence[WebhookView]", *, total_count: int) -> None:
    print_table(
        ("id", "address", "types", "enabled"),
        [(each.webhook_id, each.url, each.event_types or "all", each.enabled) for each in found],
        whole=("id",),
    )
    print_more(len(found), total_count=total_count)
