"""The `kb` command. Further subcommands come from the entry-point group `kb.commands`: functions that take the app."""

import sys
from collections.abc import Sequence
from importlib.metadata import entry_points, version
from typing import Annotated

import typer

from kb_client.command_line import (
    agents,
    ask,
    command_group,
    dead_letters,
    documents,
    events,
    keys,
    knowledge,
    knowledge_bases,
    operations,
    profiles,
    prompts,
    providers,
    search,
    usage,
    web_console,
    webhooks,
)
from kb_client.command_line.completion import command as completion
from kb_client.command_line.connection import GivenConnection
from kb_client.command_line.output_format import add_json_options
from kb_client.errors import KbClientError

COMMAND_GROUP = "kb.commands"


def create_app() -> typer.Typer:
    """Return the command with the subcommands of all installed packages."""
    app = typer.Typer(
        name="kb",
        cls=command_group.CommandsInSections,
        help="Run and use knowledge bases over documents.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_keep_connection)
    for group in (
        knowledge_bases,
        documents,
        knowledge,
        prompts,
        agents,
        providers,
        dead_letters,
        keys,
        events,
        webhooks,
    ):
        app.add_typer(group.app)
    for module in (search, ask, usage, operations, web_console, profiles, completion, command_group):
        module.register(app)
    for entry_point in sorted(entry_points(group=COMMAND_GROUP), key=lambda each: each.name):
        entry_point.load()(app)
    add_json_options(app)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: with status 0 after success, 1 after a failure, 2 after wrong usage, 130 after Ctrl-C.

    Args:
        arguments: without the name of the program; by default those of the process.
    """
    try:
        create_app()(args=arguments, prog_name="kb")
    except KbClientError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        print(f"kb {version('kb-client')}")
        raise typer.Exit


def _keep_connection(
    context: typer.Context,
    *,
    _show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="PROFILE", help="Profile of `kb login` to use. Also KB_PROFILE.")
    ] = None,
    base_url: Annotated[str | None, typer.Option("--base-url", help="Address of the API. Also KB_BASE_URL.")] = None,
    organization: Annotated[
        str | None, typer.Option("--organization", help="Id of the organization. Also KB_ORGANIZATION.")
    ] = None,
) -> None:
    context.obj = GivenConnection(base_url, organization, profile)
