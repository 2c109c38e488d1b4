"""`kb webhooks`: addresses to which events are sent."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.lists import USUAL_ROWS, RowLimit, read_items
from kb_client.command_line.output import print_answer, print_more
from kb_client.command_line.output_format import Output
from kb_client.command_line.tables import print_table
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_contracts.api.webhooks import WebhookDeliveryView, WebhookView

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


@app.command(epilog=examples("kb webhooks enable 65f1c2a3b4d5e6f708192a61"))
def enable(context: typer.Context, webhook: WebhookArgument, *, output: Output = "table") -> None:
    """Enable a webhook, also one whose receiver had answered 410, and end a pause that it has asked for."""
    with open_client(context) as client:
        enabled = client.webhooks.update(webhook, enabled=True)
    print_answer(enabled, output, id_field="webhook_id", show=lambda: print(f"enabled {webhook}"))


@app.command("rotate-secret", epilog=examples("kb webhooks rotate-secret 65f1c2a3b4d5e6f708192a61"))
def rotate_secret(context: typer.Context, webhook: WebhookArgument, *, output: Output = "table") -> None:
    """Create a new secret, which is shown only this once. For a day requests are signed with both."""
    with open_client(context) as client:
        rotated = client.webhooks.rotate_secret(webhook)
    text = f"{rotated.secret}\n\nKeep the secret now: it is not shown again. The former one signs for a day."
    print_answer(rotated, output, id_field="webhook_id", show=lambda: print(text))


@app.command(epilog=examples("kb webhooks deliveries 65f1c2a3b4d5e6f708192a61 --state dead"))
def deliveries(
    context: typer.Context,
    webhook: WebhookArgument,
    *,
    state: Annotated[
        Literal["waiting", "delivered", "dead"] | None, typer.Option("--state", help="Only deliveries in this state.")
    ] = None,
    limit: RowLimit = USUAL_ROWS,
    output: Output = "table",
) -> None:
    """List the deliveries of a webhook, newest first."""
    with open_client(context) as client:
        found = list(islice(client.webhooks.list_deliveries.iterate(webhook, state=state), limit or None))
    print_answer(
        {"deliveries": [each.model_dump(mode="json") for each in found]},
        output,
        rows="deliveries",
        id_field="delivery_id",
        show=lambda: _print_deliveries(found),
    )


@app.command(epilog=examples("kb webhooks redeliver 65f1c2a3b4d5e6f708192a61 65f1c2a3b4d5e6f708192a62"))
def redeliver(
    context: typer.Context,
    webhook: WebhookArgument,
    delivery: Annotated[
        str, typer.Argument(metavar="DELIVERY", help="Id of the delivery, as in `kb webhooks deliveries`.")
    ],
    *,
    output: Output = "table",
) -> None:
    """Try a delivery again for a day, whatever became of it."""
    with open_client(context) as client:
        again = client.webhooks.redeliver(webhook, delivery_id=delivery)
    print_answer(again, output, id_field="delivery_id", show=lambda: print(f"{delivery} is tried again"))


@app.command(epilog=examples("kb webhooks delete 65f1c2a3b4d5e6f708192a61"))
def delete(context: typer.Context, webhook: WebhookArgument, *, output: Output = "table") -> None:
    """Delete a webhook with its deliveries."""
    with open_client(context) as client:
        deleted = client.webhooks.delete(webhook)
    fields = {"webhook_id": webhook, **deleted.model_dump()}
    print_answer(fields, output, id_field="webhook_id", show=lambda: print(f"deleted {webhook}"))


def _print_list(found: "Sequence[WebhookView]", *, total_count: int) -> None:
    print_table(
        ("id", "address", "types", "enabled", "disabled because", "paused until"),
        [
            (
                each.webhook_id,
                each.url,
                each.event_types or "all",
                each.enabled,
                each.disabled_reason,
                each.paused_until,
            )
            for each in found
        ],
        whole=("id",),
    )
    print_more(len(found), total_count=total_count)


def _print_deliveries(found: "Sequence[WebhookDeliveryView]") -> None:
    if not found:
        print("There is no delivery.")
        return
    print_table(
        ("id", "event", "state", "attempts", "last attempt", "next attempt", "status", "error"),
        [
            (
                each.delivery_id,
                each.event_type,
                each.state,
                each.attempts,
                each.attempted_at,
                each.next_attempt_at,
                each.last_status,
                each.last_error,
            )
            for each in found
        ],
        whole=("id",),
    )
