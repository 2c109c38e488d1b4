"""`kb knowledge`: curated knowledge of an organization."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.connection import open_client
from kb_client.command_line.definitions import read_definition
from kb_client.command_line.examples import examples
from kb_client.command_line.output import print_answer, print_table
from kb_client.command_line.output_format import TableOrJson

if TYPE_CHECKING:
    from kb_contracts.api.knowledge_imports import ImportReport

app = command_group("knowledge", about="Bring in knowledge that people have written.")

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
