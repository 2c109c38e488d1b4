"""`kb admin`: what operators of an organization do rarely."""

import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.confirmation import confirm
from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.output import print_answer, print_fields
from kb_client.command_line.output_format import OutputWithoutIds
from kb_client.errors import HttpUnauthorized

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.organizations import OrganizationDeletionView

POLL_S: Final = 0.5

admin = command_group("admin", about="Administer an organization.")


def register(app: typer.Typer) -> None:
    """Add the commands to `kb`."""
    app.add_typer(admin)


@admin.callback()
def _admin() -> None:
    """Administer an organization."""


@admin.command(epilog=examples("kb admin settings", "kb admin settings --strict-metadata"))
def settings(
    context: typer.Context,
    *,
    strict_metadata: Annotated[
        bool | None,
        typer.Option(
            "--strict-metadata/--no-strict-metadata",
            help="Whether metadata that can't be stored refuse their document, instead of being left out.",
        ),
    ] = None,
    output: OutputWithoutIds = "table",
) -> None:
    """Show the settings of the organization, or change those that are named."""
    with open_client(context) as client:
        found = (
            client.organizations.get_settings()
            if strict_metadata is None
            else client.organizations.put_settings(strict_metadata=strict_metadata)
        )
    print_answer(found, output, show=lambda: print_fields({"strict metadata": found.strict_metadata}))


@admin.command("delete-organization", epilog=examples("kb admin delete-organization acme"))
def delete_organization(
    context: typer.Context,
    organization: Annotated[
        str, typer.Argument(metavar="ORGANIZATION", help="Id of the organization, which commands go to.")
    ],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until it is done.")] = True,
    output: OutputWithoutIds = "table",
) -> None:
    """Delete an organization with all its knowledge bases, documents and keys.

    The deletion goes on without this command; run it again to wait for the end.
    """
    with open_client(context) as client:
        if client.organization != organization:
            raise typer.BadParameter(
                f"commands go to the organization {client.organization!r} at {client.base_url}: choose another one with"
                " --organization or --profile before `admin`"
            )
        confirm(
            f"Delete everything of the organization {organization!r} at {client.base_url}? This can't be undone.",
            yes=yes,
        )
        deletion = client.organizations.delete(confirm=organization)
        if wait:
            deletion = _wait(client, deletion)
    rows = sum(deletion.deleted.values())
    print_answer(
        deletion,
        output,
        show=lambda: print(f"{'Deleted' if deletion.state == 'done' else 'Being deleted'}; {rows:,} rows so far."),
    )


def _wait(client: "Client", deletion: "OrganizationDeletionView") -> "OrganizationDeletionView":
    """Return the deletion as it was last seen, done when its key is no longer valid."""
    while True:
        try:
            deletion = client.organizations.get_deletion()
        except HttpUnauthorized:
            return deletion.model_copy(update={"state": "done", "step": "done"})
        time.sleep(POLL_S)
