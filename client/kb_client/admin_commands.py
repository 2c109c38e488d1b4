"""`kb admin`: what operators of an organization do rarely."""

import json
import os
import sys
import time
from typing import Annotated, Any, Final

import httpx
import typer

from kb_client.api_connection import ApiConnection, UnusableApi, call

POLL_S: Final = 0.5

admin = typer.Typer(help="Administer an organization.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to `kb`."""
    app.add_typer(admin, name="admin")


@admin.callback()
def _admin() -> None:
    """Administer an organization."""


@admin.command("delete-organization")
def delete_organization(
    organization: Annotated[str, typer.Argument(help="Id of the organization, which is also that of KB_ORGANIZATION.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until it is done.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Delete an organization with all its knowledge bases, documents and keys.

    The environment variables KB_BASE_URL, KB_ORGANIZATION and KB_API_KEY say where and as whom. It goes on without this
    command; run it again to wait for the end.
    """
    try:
        connection = ApiConnection.from_environment(os.environ)
        if connection.organization != organization:
            raise typer.BadParameter(f"KB_ORGANIZATION is {connection.organization!r}")
        if not yes:
            typer.confirm(f"Delete everything of the organization {organization!r}? This can't be undone", abort=True)
        with connection.open() as client:
            # httpx would add a slash to the base URL, which is another path.
            path = str(client.base_url).rstrip("/")
            deletion = call(client, "DELETE", path, params={"confirm": organization})
            if wait:
                deletion = _wait(client, deletion)
    except UnusableApi as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    rows = sum(deletion["deleted"].values())
    is_done = deletion["state"] == "done"
    print(json.dumps(deletion) if as_json else f"{'Deleted' if is_done else 'Being deleted'}; {rows} rows so far.")


def _wait(client: httpx.Client, deletion: dict[str, Any]) -> dict[str, Any]:
    """Return the deletion as it was last seen, done when its key is no longer valid."""
    while True:
        try:
            answer = client.get("/deletion")
        except httpx.HTTPError as error:
            raise UnusableApi(f"{client.base_url} can't be reached ({type(error).__name__})") from error
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            return deletion | {"state": "done", "step": "done"}
        # A second request explains what was wrong with the first.
        deletion = answer.json() if answer.is_success else call(client, "GET", "/deletion")
        time.sleep(POLL_S)
