"""`kb webhooks`: addresses to which events are sent."""

from typing import Annotated

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.connection import open_client
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.output import AsJson, print_json, print_table
from kb_client.unset import UNSET

app = command_group("webhooks", about="Have events sent to an address.")

WebhookArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the webhook, as in `kb webhooks list`.")]


@app.command("list", epilog="Example: kb webhooks list")
def list_all(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the webhooks, without their secrets."""
    with open_client(context) as client:
        found = list(client.webhooks.list.iterate())
    if as_json:
        print_json({"webhooks": [each.model_dump(mode="json") for each in found]})
        return
    print_table(
        ("id", "address", "types", "enabled"),
        [(each.webhook_id, each.url, each.event_types or "all", each.enabled) for each in found],
        whole=("id",),
    )


@app.command(epilog="Example: kb webhooks create https://example.com/hook --type document.index_failed.v1")
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
    as_json: AsJson = False,
) -> None:
    """Send the events that happen from now on to an address. The secret is shown only this once."""
    with open_client(context) as client:
        created = client.webhooks.create(
            url,
            description=UNSET if description is None else description,
            event_types=types or UNSET,
            kb_ids=[find_knowledge_base(client, each).kb_id for each in kb] if kb else UNSET,
        )
    if as_json:
        print_json(created)
    else:
        print(f"{created.webhook_id}\n{created.secret}\n\nKeep the secret now: it is not shown again.")


@app.command("test", epilog="Example: kb webhooks test 65f1c2a3b4d5e6f708192a61")
def send_test(context: typer.Context, webhook: WebhookArgument, *, as_json: AsJson = False) -> None:
    """Send a test event. The exit status is 1 unless the receiver takes it."""
    with open_client(context) as client:
        tested = client.webhooks.test(webhook)
    if as_json:
        print_json(tested)
    else:
        answer = "no answer" if tested.status is None else f"status {tested.status}"
        outcome = "delivered" if tested.delivered else f"not delivered ({tested.error})"
        print(f"{outcome}: {answer} after {tested.duration_ms:,.0f} ms")
    if not tested.delivered:
        raise typer.Exit(1)


@app.command(epilog="Example: kb webhooks delete 65f1c2a3b4d5e6f708192a61")
def delete(context: typer.Context, webhook: WebhookArgument, *, as_json: AsJson = False) -> None:
    """Delete a webhook with its deliveries."""
    with open_client(context) as client:
        deleted = client.webhooks.delete(webhook)
    if as_json:
        print_json(deleted)
    else:
        print(f"deleted {webhook}")
