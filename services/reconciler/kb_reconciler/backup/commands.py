"""`kb backup` and `kb restore`: for operators, directly on MongoDB."""

import json
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from kb_client.command_line.examples import examples
from kb_client.command_line.output_format import TableOrJson

Result = TypeVar("Result")

KbOption = Annotated[str | None, typer.Option("--kb", help="Only this knowledge base.")]
OrganizationOption = Annotated[str | None, typer.Option("--organization", help="Only this organization.")]
Keep = Annotated[
    int | None,
    typer.Option("--keep", min=1, metavar="N", help="Delete the oldest backups beside DIR, so that N are left."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to `kb`."""
    app.command(epilog=examples("kb backup /backups/2026-01-31", "kb backup /backups/2026-01-31 --keep 7"))(backup)
    app.command(epilog=examples("kb restore /backups/2026-01-31 --to mongodb://db.example.com/restored"))(restore)


def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the backup; it is created.")],
    *,
    kb_id: KbOption = None,
    organization_id: OrganizationOption = None,
    keep: Keep = None,
    output: TableOrJson = "table",
) -> None:
    """Write all knowledge bases, with everything that belongs to them, into a folder as mongodump does.

    The environment variables KB_MONGO_URI and KB_MONGO_DATABASE say of which deployment, as for the services. If DIR
    has an interrupted backup, it continues.
    """
    from kb_reconciler.backup.output import describe_backup, print_backup

    work = _back_up(folder, kb_id=kb_id, organization_id=organization_id, keep=keep, show=output == "table")
    manifest, deleted = _or_exit(work)
    if output == "json":
        typer.echo(json.dumps(describe_backup(manifest, str(folder)) | {"deleted": deleted}, indent=2))
        return
    print_backup(manifest, str(folder))
    for each in deleted:
        typer.echo(f"deleted the backup {each}")


def restore(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a backup.")],
    *,
    to: Annotated[str, typer.Option("--to", metavar="URI/DB", help="MongoDB URI that names an empty database.")],
    kb_id: KbOption = None,
    organization_id: OrganizationOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Repair without asking, whatever it costs.")] = False,
    output: TableOrJson = "table",
) -> None:
    """Restore a backup into an empty database, compare it, and queue what has to be indexed again.

    All files are checked before anything is written. An interrupted restore continues with the same command.
    """
    log_warnings_only()
    work = _restore(folder, to, kb_id=kb_id, organization_id=organization_id, yes=yes, as_json=output == "json")
    if not _or_exit(work):
        raise typer.Exit(1)


async def _back_up(
    folder: Path, *, kb_id: str | None, organization_id: str | None, keep: int | None, show: bool
) -> tuple[Any, list[str]]:
    """Make the backup, and return its manifest and the folders of older ones that were deleted."""
    from kb_reconciler.backup.backup import back_up
    from kb_reconciler.backup.deployments import mongo_failures, open_source, read_source_settings
    from kb_reconciler.backup.output import ProgressBar
    from kb_reconciler.backup.retention import delete_old_backups
    from kb_reconciler.backup.scope import BackupScope

    scope = BackupScope(organization_id, kb_id)
    with mongo_failures("run the same command again: it continues"):
        async with open_source(read_source_settings()) as database:
            with ProgressBar(shown=show) as progress:
                manifest = await back_up(database, folder, scope, progress=progress)
    deleted = [] if keep is None else delete_old_backups(folder, manifest.header, keep=keep)
    return manifest, [str(each) for each in deleted]


async def _restore(
    folder: Path, to: str, *, kb_id: str | None, organization_id: str | None, yes: bool, as_json: bool
) -> bool:
    """Restore, and return whether the repair was made."""
    from rich.console import Console

    from kb_reconciler.backup import output
    from kb_reconciler.backup.deployments import mongo_failures, open_target, read_provider_key_ids
    from kb_reconciler.backup.restore import load
    from kb_reconciler.backup.scope import BackupScope
    from kb_reconciler.backup.verification import verify

    with output.ProgressBar(shown=not as_json) as progress:
        verified = await verify(folder, BackupScope(organization_id, kb_id), progress=progress)
    with mongo_failures("run the same command again: it continues"):
        async with open_target(to) as database:
            with output.ProgressBar(shown=not as_json) as progress:
                restored = await load(database, verified, progress=progress)
            console = Console(file=sys.stderr) if as_json else Console()
            output.print_notes(restored, key_ids_here=read_provider_key_ids(os.environ), console=console)
            output.print_forecast(restored.forecast, console=console)
            outcome = await restored.repair() if _may_repair(restored, yes=yes) else None
    if as_json:
        typer.echo(json.dumps(output.describe_restore(restored, restored.forecast, outcome), indent=2))
    elif outcome is not None:
        output.print_outcome(restored, outcome)
    return outcome is not None


def log_warnings_only() -> None:
    """Write what the reconciler logs to the standard error: the standard output is the outcome."""
    import logging

    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _may_repair(restored: Any, *, yes: bool) -> bool:
    if yes or not restored.forecast.found:
        return True
    if sys.stdin.isatty() and typer.confirm("Repair?", err=True):
        return True
    typer.echo(
        "Nothing was repaired. All rows are restored; run the same command again, with --yes, to repair and to finish.",
        err=True,
    )
    return False


def _or_exit(work: Coroutine[Any, Any, Result]) -> Result:
    """Return what `work` returns; an error that a person can fix becomes one line and exit status 1, Ctrl-C 130."""
    import asyncio

    from kb_reconciler.backup.errors import BackupRefused

    try:
        return asyncio.run(work)
    except BackupRefused as error:
        typer.echo(f"error: {error}", err=True)
    except OSError as error:
        typer.echo(
            f"error: {error.strerror or type(error).__name__}: {error.filename or 'a file of the backup'}", err=True
        )
    except KeyboardInterrupt:
        typer.echo("interrupted; run the same command again, it continues", err=True)
        raise typer.Exit(130) from None
    raise typer.Exit(1)
