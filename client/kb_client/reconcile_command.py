"""`kb reconcile`: compare knowledge bases with what they should be, and repair them."""

import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.output import open_console, print_answer
from kb_client.command_line.output_format import Output
from kb_client.command_line.tables import print_table
from kb_client.command_line.unusable_request import UnusableRequest

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.reconcile import PlanView, PlanWithRepairs

POLL_S: Final = 0.5
MAX_WAIT_WITHOUT_PROGRESS_S: Final = 300.0
_IN_PROGRESS: Final = frozenset({"requested", "approved", "running"})
_SHOWN_REPAIRS: Final = 20


def register(app: typer.Typer) -> None:
    """Add the command to `kb`."""
    app.command(epilog=examples("kb reconcile handbook --dry-run", "kb reconcile --apply 6b06c6c42cc6f6099a3ac718"))(
        reconcile
    )


def reconcile(
    context: typer.Context,
    kb: Annotated[
        str | None,
        typer.Argument(metavar="KB", help="Name or id of the knowledge base. Default: all of the organization."),
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the repairs and make none.")] = False,
    document: Annotated[
        str | None, typer.Option("--document", metavar="DOCUMENT", help="Id of one document to compare.")
    ] = None,
    apply: Annotated[
        str | None,
        typer.Option("--apply", metavar="PLAN", help="Id of a plan whose repairs are made, however many they remove."),
    ] = None,
    output: Output = "table",
) -> None:
    """Compare knowledge bases with what they should be, and repair what differs."""
    if document is not None and kb is None:
        raise typer.BadParameter("--document needs a knowledge base")
    if apply is not None and (kb or document or dry_run):
        raise typer.BadParameter("--apply takes no knowledge base, no --document and no --dry-run")
    with open_client(context, shows_waits=False) as client:
        started = _start(client, kb=kb, document=document, dry_run=dry_run, apply=apply)
        plan = _wait(client, started.plan_id, show_progress=output == "table")
    print_answer(plan, output, id_field="plan_id", show=lambda: _print_outcome(plan))
    if plan.state in ("failed", "stopped"):
        raise typer.Exit(1)


def _start(client: "Client", *, kb: str | None, document: str | None, dry_run: bool, apply: str | None) -> "PlanView":
    if apply is not None:
        return client.reconcile.apply_plan(apply)
    if kb is None:
        return client.reconcile.start(dry_run=dry_run)
    kb_id = find_knowledge_base(client, kb).kb_id
    if document is None:
        return client.knowledge_bases.reconcile(kb_id, dry_run=dry_run)
    return client.knowledge_bases.reconcile_document(kb_id, document_id=document, dry_run=dry_run)


def _wait(client: "Client", plan_id: str, *, show_progress: bool) -> "PlanWithRepairs":
    """Return the plan with its repairs once the reconciler is done with it.

    Raises:
        UnusableRequest: there was no progress for some minutes.
    """
    from rich.progress import BarColumn, Progress, TextColumn

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed} of {task.total} slices"),
        console=open_console(errors=True),
        disable=not show_progress,
        transient=True,
    )
    changed_at, last = time.monotonic(), None
    try:
        with progress:
            task = progress.add_task("waiting for the reconciler", total=None)
            while True:
                plan = client.reconcile.get_plan(plan_id, limit=_SHOWN_REPAIRS)
                if plan.state not in _IN_PROGRESS:
                    return plan
                if (now := (plan.state, plan.compared)) != last:
                    changed_at, last = time.monotonic(), now
                if time.monotonic() - changed_at > MAX_WAIT_WITHOUT_PROGRESS_S:
                    raise UnusableRequest(
                        f"plan {plan_id} made no progress for {MAX_WAIT_WITHOUT_PROGRESS_S:.0f} s: is the reconciler"
                        " running? The plan is executed once it does."
                    )
                if plan.state == "running":
                    progress.update(task, description="comparing", completed=plan.compared, total=plan.slices or None)
                time.sleep(POLL_S)
    except KeyboardInterrupt:
        raise UnusableRequest(f"interrupted; the reconciler goes on with plan {plan_id}") from None


def _print_outcome(plan: "PlanWithRepairs") -> None:
    if plan.found:
        print_table(
            ("drift", "documents", "repaired"),
            [(kind, number, plan.repaired.get(kind, 0)) for kind, number in sorted(plan.found.items())],
        )
        print()
    if plan.repairs and plan.state in ("planned", "stopped"):
        _print_repairs(plan)
    for kb_id in plan.skipped:
        print(f"not compared, because it is not active: {kb_id}")
    print(_sentence(plan))


def _print_repairs(plan: "PlanWithRepairs") -> None:
    print_table(
        ("knowledge base", "document", "drift", "repair"),
        [(each.kb_id, each.document_id, each.kind, each.repair) for each in plan.repairs],
        whole=("knowledge base", "document"),
    )
    if (left := plan.total_count - len(plan.repairs)) > 0:
        print(f"and {left:,} more")
    print()


def _sentence(plan: "PlanWithRepairs") -> str:
    plan_id = plan.plan_id
    match plan.state:
        case "planned":
            return f"Nothing was changed. To make these repairs: kb reconcile --apply {plan_id}"
        case "stopped":
            return (
                f"Stopped: {plan.total_count:,} documents would be removed, which looks like lost data. Find"
                f" out why first. To remove them all the same: kb reconcile --apply {plan_id}"
            )
        case "failed":
            return f"Plan {plan_id} failed ({plan.error}); see the log of the reconciler."
        case _ if not plan.found:
            return "No drift was found."
        case _:
            return "Repaired. Documents that have to be indexed again are queued; their state is in the knowledge base."
