"""`kb knowledge import|structure|apply|check-ins`: knowledge that people have written elsewhere."""

import json
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kb_client.command_line.connection import open_client
from kb_client.command_line.definitions import StoredModelOption, read_definition, read_text
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_group import app
from kb_client.command_line.lists import USUAL_ROWS, RowLimit
from kb_client.command_line.output import print_answer, print_fields
from kb_client.command_line.output_format import Output, TableOrJson
from kb_client.command_line.tables import print_table
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_contracts.api.check_ins import CheckInSummary, CheckInView
    from kb_contracts.api.knowledge_imports import ImportReport

_PARTS: Final = ("metadata", "pieces", "graph")

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would happen.")]


@app.command(
    "import", epilog=examples("kb knowledge import knowledge.json", "kb knowledge import knowledge.json --dry-run")
)
def import_document(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON document; - for standard input.")],
    *,
    dry_run: DryRunOption = False,
    output: TableOrJson = "table",
) -> None:
    """Import entities, pieces and a graph. Invalid items are skipped, each with a reason."""
    document = read_definition(file, fields=_PARTS, ignored=())
    with open_client(context) as client:
        report = client.knowledge.import_document(**document, dry_run=dry_run)
    print_answer(report, output, show=lambda: show_report(report))


def show_report(report: "ImportReport") -> None:
    """Print what was loaded and what was skipped."""
    verb = "would be" if report.dry_run else "were"
    loaded, changed = report.loaded.model_dump(), report.changed.model_dump()
    print_table(["section", "loaded", "changed"], [(name, loaded[name], changed[name]) for name in loaded])
    if report.skipped:
        print(f"\n{len(report.skipped)} items {verb} skipped:")
        print_table(
            ["section", "index", "id", "reason"],
            [(each.section, each.index, each.id, each.reason) for each in report.skipped],
            whole=["reason"],
        )


@app.command(
    epilog=examples(
        "kb knowledge structure notes.txt",
        "pbpaste | kb knowledge structure - --apply",
    )
)
def structure(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Text; - for standard input.")],
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Import the proposal at once.")] = False,
    model: StoredModelOption = None,
    output: TableOrJson = "table",
) -> None:
    """Let a chat model turn a text into entities, pieces and a graph."""
    text = read_text(file)
    with open_client(context) as client:
        check_in = client.knowledge.structure(text=text, model=UNSET if model is None else model, apply=apply)
    print_answer(check_in, output, show=lambda: _show_check_in(check_in))


@app.command("apply", epilog=examples("kb knowledge apply 65f1c2a3b4d5e6f708192a71"))
def apply_check_in(
    context: typer.Context,
    check_in: Annotated[str, typer.Argument(metavar="CHECK_IN", help="Id of the check-in.")],
    *,
    output: TableOrJson = "table",
) -> None:
    """Import the proposal of a check-in."""
    with open_client(context) as client:
        applied = client.check_ins.apply(check_in)
    print_answer(applied, output, show=lambda: _show_check_in(applied))


@app.command("check-ins", epilog=examples("kb knowledge check-ins", "kb knowledge check-ins --json"))
def list_check_ins(context: typer.Context, *, limit: RowLimit = USUAL_ROWS, output: Output = "table") -> None:
    """List the texts that chat models turned into knowledge."""
    with open_client(context) as client:
        found = list(islice(client.check_ins.list.iterate(), limit or None))
    print_answer(
        {"check_ins": [each.model_dump(mode="json") for each in found]},
        output,
        rows="check_ins",
        id_field="check_in_id",
        show=lambda: _print_check_ins(found),
    )


def _print_check_ins(check_ins: "Sequence[CheckInSummary]") -> None:
    print_table(
        ["check-in", "state", "created", "model", "cost USD", "warnings", "text"],
        [
            (
                each.check_in_id,
                each.state,
                each.created_at,
                each.model,
                each.cost_usd,
                each.warning_count,
                each.excerpt,
            )
            for each in check_ins
        ],
        whole=["check-in"],
    )


def _show_check_in(check_in: "CheckInView") -> None:
    print_fields(
        {
            "check-in": check_in.check_in_id,
            "state": check_in.state,
            "model": check_in.model,
            "tokens": check_in.prompt_tokens + check_in.completion_tokens,
            "cost USD": check_in.cost_usd,
        }
    )
    if check_in.artifacts is not None:
        show_report(check_in.artifacts)
        return
    print(json.dumps(check_in.proposal, indent=2, ensure_ascii=False))
    for warning in check_in.warnings:
        print(f"left out: {warning.section}: {warning.reason}", file=sys.stderr)
    print(f"Import it: kb knowledge apply {check_in.check_in_id}", file=sys.stderr)
