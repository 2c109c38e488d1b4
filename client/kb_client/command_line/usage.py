"""`kb usage` and `kb budget`: what was charged, and the limits of a month."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.output import print_answer, print_fields
from kb_client.command_line.output_format import OutputWithoutIds
from kb_client.command_line.tables import print_table

if TYPE_CHECKING:
    from kb_contracts.api.budgets import BudgetView
    from kb_contracts.api.usage import Usage, UsageRow

_DIMENSIONS: Final = ("kb_id", "model", "operation", "day")


def register(app: typer.Typer) -> None:
    """Add the commands to `kb`."""
    app.command(epilog=examples("kb usage --by model,day --since 2026-01-01T00:00:00Z"))(usage)
    app.command(epilog=examples("kb budget", "kb budget --hard 100000 --soft 80000"))(budget)


def usage(
    context: typer.Context,
    *,
    by: Annotated[str, typer.Option("--by", "--group-by", help="kb, model, operation, day, joined by commas.")] = "kb",
    since: Annotated[str | None, typer.Option("--since", help="Beginning. Default: that of this month.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="End, excluded. Default: now.")] = None,
    output: OutputWithoutIds = "table",
) -> None:
    """Show the SPUs that were charged, and their cost."""
    with open_client(context) as client:
        if output == "csv":
            # As the API writes it, with the names of knowledge bases.
            print(client.usage.get_csv(since=since, until=until, group_by=by), end="")
            return
        found = client.usage.get(since=since, until=until, group_by=by)
    print_answer(_without_other_dimensions(found, by), output, rows="usage", show=lambda: _print_usage(found, by=by))


def budget(
    context: typer.Context,
    *,
    soft: Annotated[int | None, typer.Option("--soft", min=0, help="SPUs a month from which to warn.")] = None,
    hard: Annotated[int | None, typer.Option("--hard", min=0, help="SPUs a month that are never exceeded.")] = None,
    soft_usd: Annotated[float | None, typer.Option("--soft-usd", min=0, help="Like --soft, in US dollars.")] = None,
    hard_usd: Annotated[float | None, typer.Option("--hard-usd", min=0, help="Like --hard, in US dollars.")] = None,
    no_limits: Annotated[bool, typer.Option("--no-limits", help="Remove all limits.")] = False,
    output: OutputWithoutIds = "table",
) -> None:
    """Show the budget, or change the limits that are named. The others stay as they are."""
    given = {"soft": soft, "hard": hard, "soft_usd": soft_usd, "hard_usd": hard_usd}
    with open_client(context) as client:
        found = client.budget.get()
        if no_limits:
            found = client.budget.put(soft=None, hard=None)
        elif any(each is not None for each in given.values()):
            found = client.budget.put(
                soft=found.soft if soft is None else soft,
                hard=found.hard if hard is None else hard,
                soft_usd=found.soft_usd if soft_usd is None else soft_usd,
                hard_usd=found.hard_usd if hard_usd is None else hard_usd,
            )
    print_answer(found, output, show=lambda: _print_budget(found))


def _without_other_dimensions(found: "Usage", by: str) -> dict[str, Any]:
    """Return usage as the API has it: dimensions by which it is not grouped are absent."""
    plain = found.model_dump(mode="json")
    absent = [each for each in _DIMENSIONS if each.removesuffix("_id") not in by.split(",")]
    return plain | {
        "usage": [{name: value for name, value in row.items() if name not in absent} for row in plain["usage"]]
    }


def _print_usage(found: "Usage", *, by: str) -> None:
    shown_dimensions = [each for each in _DIMENSIONS if each.removesuffix("_id") in by.split(",")]
    rows = [
        (
            *(_describe_kb(each) if name == "kb_id" else getattr(each, name) for name in shown_dimensions),
            each.spus,
            f"{each.usd:.4f}",
        )
        for each in found.usage
    ]
    columns = [{"kb_id": "knowledge base"}.get(each, each) for each in shown_dimensions]
    print_table((*columns, "SPUs", "US dollars"), rows)
    print(f"\n{found.total_spus:,} SPUs, {found.total_usd:.4f} US dollars")


def _describe_kb(row: "UsageRow") -> str:
    if row.kb_id is None:
        return "(none: answers, and knowledge of the organization)"
    return row.kb_name or f"{row.kb_id} (deleted)"


def _print_budget(found: "BudgetView") -> None:
    print_fields(
        {
            "month": f"{found.month}, ends at {found.resets_at:%Y-%m-%d %H:%M} UTC",
            "status": found.status,
            "SPUs used": found.used,
            "soft limit": found.soft,
            "hard limit": found.hard,
            "US dollars used": f"{found.used_usd:.4f}",
            "soft limit in US dollars": found.soft_usd,
            "hard limit in US dollars": found.hard_usd,
        }
    )
