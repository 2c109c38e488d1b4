"""`kb keys`: API keys of the organization."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.confirmation import confirm
from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.lists import USUAL_ROWS, RowLimit, read_items
from kb_client.command_line.output import print_answer, print_more, visible
from kb_client.command_line.output_format import Output
from kb_client.command_line.tables import print_table
from kb_client.command_line.unusable_request import UnusableRequest
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_contracts.api.api_keys import ApiKeyView, KeyScope

app = command_group("keys", about="List, create and revoke API keys.")


@app.command("list", epilog=examples("kb keys list"))
def list_all(context: typer.Context, *, limit: RowLimit = USUAL_ROWS, output: Output = "table") -> None:
    """List the keys, without their secrets."""
    with open_client(context) as client:
        found = read_items(client.api_keys.list, limit=limit)
    print_answer(
        found.to_json("api_keys"),
        output,
        rows="api_keys",
        id_field="key_id",
        show=lambda: _print_list(found.items, total_count=found.total_count),
    )


@app.command(epilog=examples("kb keys create ci --scope read --scope search --kb handbook"))
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the key, for people.")],
    *,
    scope: Annotated[list[str], typer.Option("--scope", metavar="SCOPE", help="read, search, write or admin.")],
    kb: Annotated[
        list[str] | None, typer.Option("--kb", metavar="KB", help="Only knowledge base it may use. May be repeated.")
    ] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="Time, such as 2027-01-01T00:00:00Z.")] = None,
    output: Output = "table",
) -> None:
    """Create a key. It is shown only this once."""
    with open_client(context) as client:
        created = client.api_keys.create(
            name=name,
            scopes=cast("list[KeyScope]", scope),
            expires_at=expires or UNSET,
            kb_ids=[find_knowledge_base(client, each).kb_id for each in kb] if kb else UNSET,
        )
    print_answer(
        created,
        output,
        id_field="key_id",
        show=lambda: print(f"{created.api_key}\n\nKeep it now: it is not shown again."),
    )


@app.command(epilog=examples("kb keys revoke 286bfb638e7f", "kb keys revoke 286bfb638e7f --yes"))
def revoke(
    context: typer.Context,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the key, as in `kb keys list`.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Revoke without asking.")] = False,
    output: Output = "table",
) -> None:
    """Revoke a key. Calls with it are refused from now on."""
    with open_client(context) as client:
        if not yes:
            # Who is asked about a key sees which one it is, and an id that is wrong is not asked about.
            known = next((each for each in client.api_keys.list.iterate() if each.key_id == key_id), None)
            if known is None:
                raise UnusableRequest(f"there is no key with the id {key_id!r}: `kb keys list` shows them")
            confirm(f"Revoke the key {key_id} ({visible(known.name)})?", yes=yes)
        answer = client.api_keys.revoke(key_id)
    print_answer(
        {"key_id": key_id, **answer.model_dump()}, output, id_field="key_id", show=lambda: print(f"revoked {key_id}")
    )


def _print_list(found: "Sequence[ApiKeyView]", *, total_count: int) -> None:
    print_table(
        ("id", "name", "scopes", "expires", "last used", "revoked"),
        [(each.key_id, each.name, each.scopes, each.expires_at, each.last_used_at, each.revoked_at) for each in found],
        whole=("id",),
    )
    print_more(len(found), total_count=total_count)
