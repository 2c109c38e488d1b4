"""`kb login` and `kb config`: profiles, so that no command needs an address or a key."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.connection import GivenConnection, find_configuration
from kb_client.command_line.examples import examples
from kb_client.command_line.output import print_answer, print_fields
from kb_client.command_line.output_format import Output, OutputWithoutIds
from kb_client.command_line.tables import print_table
from kb_client.configuration import (
    DEFAULT_PROFILE,
    configuration_path,
    load_configuration,
    read_profiles,
    save_profile,
    write_profiles,
)

if TYPE_CHECKING:
    from kb_client.configuration import Configuration

app = command_group("config", about="Show and choose profiles, which `kb login` writes.")


def register(app_: typer.Typer) -> None:
    """Add `kb login` and `kb config`."""
    app_.command(epilog=examples("kb login --base-url https://kb.example.com --organization acme"))(login)
    app_.add_typer(app)


def login(
    context: typer.Context,
    *,
    base_url: Annotated[str | None, typer.Option("--base-url", help="Address of the API.")] = None,
    organization: Annotated[str | None, typer.Option("--organization", help="Id of the organization.")] = None,
    profile: Annotated[
        str, typer.Option("--profile", metavar="PROFILE", help="Name of the profile to write.")
    ] = DEFAULT_PROFILE,
    output: Output = "table",
) -> None:
    """Ask for address, organization and key, try them, and keep them in a profile.

    The key is read from the terminal or standard input, so that it is in no list of processes.
    """
    given = context.obj if isinstance(context.obj, GivenConnection) else GivenConnection()
    found = load_configuration(
        base_url=base_url or given.base_url or typer.prompt("Address of the API"),
        organization=organization or given.organization or typer.prompt("Organization"),
        api_key=_read_key(),
        environment={},
    )
    _try(found)
    path = save_profile(profile, found)
    print_answer(
        {"profile": profile, "base_url": found.base_url, "organization": found.organization, "file": str(path)},
        output,
        id_field="profile",
        show=lambda: print(f"logged in to {found.base_url} as {found.organization}; profile {profile!r} is in {path}"),
    )


@app.command(epilog=examples("kb config show"))
def show(context: typer.Context, *, output: OutputWithoutIds = "table") -> None:
    """Show where commands go. The secret of the key is left out."""
    given = context.obj if isinstance(context.obj, GivenConnection) else GivenConnection()
    found = find_configuration(given)
    fields = {"base_url": found.base_url, "organization": found.organization, "key": _without_secret(found.api_key)}
    print_answer(fields, output, show=lambda: print_fields(fields))


@app.command("list", epilog=examples("kb config list"))
def list_all(*, output: Output = "table") -> None:
    """List the profiles."""
    path = configuration_path()
    profiles = read_profiles(path)
    rows = [
        (name, profile.get("base_url"), profile.get("organization"), name == profiles.current)
        for name, profile in sorted(profiles.by_name.items())
    ]
    columns = ("profile", "base_url", "organization", "current")

    def show() -> None:
        if rows:
            print_table(columns, rows, whole=("base_url",))
        else:
            print(f"There is no profile in {path}. `kb login` writes one.")

    print_answer(
        {"file": str(path), "profiles": [dict(zip(columns, row, strict=True)) for row in rows]},
        output,
        rows="profiles",
        id_field="profile",
        show=show,
    )


@app.command(epilog=examples("kb config use production"))
def use(
    name: Annotated[str, typer.Argument(metavar="PROFILE", help="Name of the profile.")], *, output: Output = "table"
) -> None:
    """Use a profile from now on."""
    path = configuration_path()
    profiles = read_profiles(path)
    profiles.get(name)
    write_profiles(path, replace(profiles, current=name))
    print_answer(
        {"profile": name, "file": str(path)},
        output,
        id_field="profile",
        show=lambda: print(f"commands use the profile {name!r} now"),
    )


def _read_key() -> str:
    if sys.stdin.isatty():
        key: str = typer.prompt("API key", hide_input=True)
        return key
    return sys.stdin.readline().strip()


def _try(found: "Configuration") -> None:
    """Make a call that any key may make of its own organization.

    Raises:
        ApiError: the key or the organization is refused.
    """
    from kb_client.sync_client.client import Client

    with Client(found.base_url, organization=found.organization, api_key=found.api_key, origin="cli") as client:
        client.knowledge_bases.list(limit=1)


def _without_secret(key: str) -> str:
    return f"{key.rsplit('_', 1)[0]}_..." if "_" in key else "..."
