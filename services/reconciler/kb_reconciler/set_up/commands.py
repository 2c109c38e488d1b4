"""`kb set-up`: for operators, and for a job that runs before the services start."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kb_client.command_line.examples import examples
from kb_client.command_line.output_format import TableOrJson

if TYPE_CHECKING:  # heavy, and all other subcommands of `kb` load this file
    from kb_reconciler.set_up.set_up import ExistingParts
    from kb_shared.settings import CommonSettings


def register(app: typer.Typer) -> None:
    """Add the command to `kb`."""
    app.command("set-up", epilog=examples("kb set-up", "kb set-up --migrations --within 600"))(set_up)


def set_up(
    *,
    within_s: Annotated[
        float, typer.Option("--within", metavar="SECONDS", min=1, help="How long to wait for servers, at most.")
    ] = 120,
    migrations: Annotated[
        bool, typer.Option("--migrations", help="Also wait until the reconcilers have made all migrations.")
    ] = False,
    output: TableOrJson = "table",
) -> None:
    """Create the topics, indexes and search indexes that are missing. It changes nothing that exists.

    It reads the same environment variables as the services. The exit status is 0 only if everything exists. Search
    indexes may still be building, and migrations may be pending: the services work meanwhile.
    """
    from kb_reconciler.backup.commands import log_warnings_only

    log_warnings_only()
    found = _or_exit(within_s, migrations=migrations)
    if output == "json":
        typer.echo(json.dumps(asdict(found), indent=2))
    else:
        _print(found, typer.echo)


def _or_exit(within_s: float, *, migrations: bool) -> "ExistingParts":
    """Return what exists; a failure becomes one line and exit status 1."""
    import asyncio

    from kb_reconciler.set_up.set_up import SetUpFailed
    from kb_reconciler.set_up.set_up import set_up as create
    from kb_shared.errors import Misconfigured

    try:
        return asyncio.run(create(_read_settings(), within_s=within_s, migrations=migrations, note=_note))
    except (SetUpFailed, Misconfigured) as error:
        typer.echo(f"error: {error}", err=True)
    except KeyboardInterrupt:
        typer.echo("interrupted; run the same command again, it continues", err=True)
        raise typer.Exit(130) from None
    raise typer.Exit(1)


def _note(reason: str) -> None:
    typer.echo(f"waiting: {reason}", err=True)


def _read_settings() -> "CommonSettings":
    from pydantic import ValidationError

    from kb_shared.errors import Misconfigured
    from kb_shared.settings import CommonSettings

    try:
        return CommonSettings()
    except ValidationError as error:
        names = ", ".join(sorted({f"KB_{str(each['loc'][0]).upper()}" for each in error.errors() if each["loc"]}))
        raise Misconfigured(f"these settings can't be used: {names or 'those of Kafka'}") from None


def _print(found: "ExistingParts", echo: Callable[[str], None]) -> None:
    echo(f"{len(found.topics)} topics exist, and the search indexes of {found.knowledge_bases} knowledge bases.")
    for risk in found.topic_risks:
        echo(f"At risk: {risk}")
    if found.building:
        echo(f"Search indexes are still building: {', '.join(found.building)}")
    if found.pending_migrations:
        echo(f"Pending migrations, which the reconcilers make: {', '.join(found.pending_migrations)}")
