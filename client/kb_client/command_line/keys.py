"""`kb keys`: API keys of the organization."""

from typing import TYPE_CHECKING, Annotated, cast

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.connection import open_client
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.output import AsJson, print_json, print_table
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_contracts.api.api_keys import KeyScope

app = command_group("keys", about="List, create and revoke API keys.")


@app.command("list", epilog="Example: kb keys list")
def list_all(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the keys, without their secrets."""
    with open_client(context) as client:
        found = list(client.api_keys.list.iterate())
    if as_json:
        print_json({"api_keys": [each.model_dump(mode="json") for each in found]})
        return
    print_table(
        ("id", "name", "scopes", "expires", "revoked"),
        [(each.key_id, each.name, each.scopes, each.expires_at, each.revoked_at) for each in found],
        whole=("id",),
    )


@app.command(epilog="Example: kb keys create ci --scope read --scope search --kb handbook")
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the key, for people.")],
    *,
    scope: Annotated[list[str], typer.Option("--scope", metavar="SCOPE", help="read, search, write or admin.")],
    kb: Annotated[
        list[str] | None, typer.Option("--kb", metavar="KB", help="Only knowledge base it may use. May be repeated.")
    ] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="Time, such as 2027-01-01T00:00:00Z.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key. It is shown only this once."""
    with open_client(context) as client:
        created = client.api_keys.create(
            name=name,
            scopes=cast("list[KeyScope]", scope),
            expires_at=expires or UNSET,
            kb_ids=[find_knowledge_base(client, each).kb_id for each in kb] if kb else UNSET,
        )
    if as_json:
        print_json(created)
    else:
        print(f"{created.api_key}\n\nKeep it now: it is not shown again.")


@app.command(epilog="Example: kb keys revoke 286bfb638e7f")
def revoke(
    context: typer.Context,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the key, as in `kb keys list`.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Revoke a key. Calls with it are refused from now on."""
    with open_client(context) as client:
        answer = client.api_keys.revoke(key_id)
    if as_json:
        print_json(answer)
    else:
        print(f"revoked {key_id}")
