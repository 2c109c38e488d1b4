"""`kb reconcile`: compare knowledge bases with what they should be, and repair them."""

import json
import os
import sys
import time
from typing import Annotated, Any, Final
from urllib.parse import quote

import httpx
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from kb_client.api_connection import ApiConnection, UnusableApi, call

POLL_S: Final = 0.5
MAX_WAIT_WITHOUT_PROGRESS_S: Final = 300.0
_IN_PROGRESS: Final = frozenset({"requested", "approved", "running"})
_SHOWN_REPAIRS: Final = 20


def register(app: typer.Typer) -> None:
    """Add the command to `kb`."""
    app.command()(reconcile)


def reconcile(
    kb_id: Annotated[
        str | None, typer.Argument(help="Id of the knowledge base. Default: all of the organization.")
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the repairs and make none.")] = False,
    document: Annotated[str | None, typer.Option("--document", help="Id of one document to compare.")] = None,
    apply: Annotated[
        str | None, typer.Option("--apply", help="Id of a plan whose repairs are made, however many they remove.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare knowledge bases with what they should be, and repair what differs.

    The environment variables KB_BASE_URL, KB_ORGANIZATION and KB_API_KEY say where and as whom.
    """
    if document is not None and kb_id is None:
        raise typer.BadParameter("--document needs the id of a knowledge base")
    if apply is not None and (kb_id or document or dry_run):
        raise typer.BadParameter("--apply takes no knowledge base, no --document and no --dry-run")
    try:
        with ApiConnection.from_environment(os.environ).open() as client:
            plan = _start(client, kb_id=kb_id, document=document, dry_run=dry_run, apply=apply)
            plan = _wait(client, plan, show_progress=not as_json)
    except UnusableApi as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    if as_json:
        print(json.dumps(plan, indent=2))
    else:
        _print_outcome(plan)
    if plan["state"] in ("failed", "stopped"):
        raise typer.Exit(1)


def _start(
    client: httpx.Client, *, kb_id: str | None, document: str | None, dry_run: bool, apply: str | None
) -> dict[str, Any]:
    if apply is not None:
        return call(client, "POST", f"/reconcile/plans/{_quoted(apply)}/apply")
    path = "/reconcile"
    if kb_id is not None:
        of_document = "" if document is None else f"/documents/{_quoted(document)}"
        path = f"/knowledge-bases/{_quoted(kb_id)}{of_document}/reconcile"
    return call(client, "POST", path, params={"dry_run": dry_run})


def _quoted(identifier: str) -> str:
    """Encode an id that a person has typed as one segment of a path."""
    return quote(identifier, safe="")


def _wait(client: httpx.Client, plan: dict[str, Any], *, show_progress: bool) -> dict[str, Any]:
    """Return the plan with its repairs once the reconciler is done with it.

    Raises:
        UnusableApi: there was no progress for some minutes.
    """
    plan_id, path = plan["plan_id"], f"/reconcile/plans/{plan['plan_id']}"
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed} of {task.total} slices"),
        console=Console(file=sys.stderr),
        disable=not show_progress,
        transient=True,
    )
    changed_at, last = time.monotonic(), None
    try:
        with progress:
            task = progress.add_task("waiting for the reconciler", total=None)
            while True:
                plan = call(client, "GET", path, params={"limit": _SHOWN_REPAIRS})
                if plan["state"] not in _IN_PROGRESS:
                    return plan
                if (now := (plan["state"], plan["compared"])) != last:
                    changed_at, last = time.monotonic(), now
                if time.monotonic() - changed_at > MAX_WAIT_WITHOUT_PROGRESS_S:
                    raise UnusableApi(
                        f"plan {plan_id} made no progress for {MAX_WAIT_WITHOUT_PROGRESS_S:.0f} s: is the reconciler"
                        " running? The plan is executed once it does."
                    )
                if plan["state"] == "running":
                    progress.update(
                        task, description="comparing", completed=plan["compared"], total=plan["slices"] or None
                    )
                time.sleep(POLL_S)
    except KeyboardInterrupt:
        raise UnusableApi(f"interrupted; the reconciler goes on with plan {plan_id}") from None


def _print_outcome(plan: dict[str, Any]) -> None:
    console = Console()
    if plan["found"]:
        table = Table("drift", "documents", "repaired")
        for kind, number in sorted(plan["found"].items()):
            table.add_row(kind, str(number), str(plan["repaired"].get(kind, 0)))
        console.print(table)
    if plan["state"] in ("planned", "stopped"):
        _print_repairs(console, plan)
    for kb_id in plan["skipped"]:
        console.print(f"not compared, because it is not active: {kb_id}", highlight=False)
    console.print(_sentence(plan), highlight=False, soft_wrap=True)


def _print_repairs(console: Console, plan: dict[str, Any]) -> None:
    table = Table("knowledge base", "document", "drift", "repair")
    for repair in plan["repairs"]:
        table.add_row(repair["kb_id"], repair["document_id"] or "", repair["kind"], repair["repair"])
    console.print(table)
    if (left := plan["total_count"] - len(plan["repairs"])) > 0:
        console.print(f"and {left} more", highlight=False)


def _sentence(plan: dict[str, Any]) -> str:
    plan_id = plan["plan_id"]
    match plan["state"]:
        case "planned":
            return f"Nothing was changed. To make these repairs: kb reconcile --apply {plan_id}"
        case "stopped":
            return (
                f"Stopped: {plan['total_count']} documents would be removed, which looks like lost data. Find out why"
                f" first. To remove them all the same: kb reconcile --apply {plan_id}"
            )
        case "failed":
            return f"Plan {plan_id} failed ({plan['error']}); see the log of the reconciler."
        case _ if not plan["found"]:
            return "No drift was found."
        case _:
            return "Repaired. Documents that have to be indexed again are queued; their state is in the knowledge base."
