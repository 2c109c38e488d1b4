"""`kb knowledge sources run|runs|cancel`: runs of sources."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.lists import USUAL_ROWS, RowLimit, read_items
from kb_client.command_line.output import open_console, print_answer, print_fields, print_more, visible
from kb_client.command_line.output_format import Output, OutputFormat
from kb_client.command_line.source_group import app
from kb_client.command_line.source_names import SourceArgument, find_source
from kb_client.command_line.tables import print_table
from kb_client.command_line.unusable_request import UnusableRequest

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.knowledge_sources import ItemCounts, SourceRunView

POLL_S: Final = 1.0
_OPEN: Final = ("waiting", "running")

RunArgument = Annotated[
    str | None, typer.Argument(metavar="RUN", help="Id of a run, to show it alone with all its messages.")
]


@app.command(epilog=examples("kb knowledge sources run Handbook --wait", "kb knowledge sources run Handbook --json"))
def run(
    context: typer.Context,
    source: SourceArgument,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end; exit status 1 unless it is ok.")] = False,
    output: Output = "table",
) -> None:
    """Let a runner read a source now, also one that is disabled. Ctrl-C ends the waiting, not the run."""
    with open_client(context) as client:
        found = find_source(client, source)
        started = client.knowledge_sources.run(found.source_id)
        ended = _wait_for_end(client, started) if wait else started
    if wait:
        _print_run(ended, output)
        raise typer.Exit(0 if ended.status == "ok" else 1)
    print_answer(
        ended,
        output,
        id_field="run_id",
        show=lambda: print(f"{ended.run_id}\n\nSee what becomes of it: kb knowledge sources runs {found.source_id}"),
    )


@app.command(
    epilog=examples("kb knowledge sources runs Handbook", "kb knowledge sources runs Handbook --limit 1 --json")
)
def runs(
    context: typer.Context,
    source: SourceArgument,
    source_run: RunArgument = None,
    *,
    limit: RowLimit = USUAL_ROWS,
    output: Output = "table",
) -> None:
    """List the runs of a source, newest first, or show one of them."""
    with open_client(context) as client:
        source_id = find_source(client, source).source_id
        if source_run is not None:
            _print_run(client.knowledge_sources.get_run(source_id, source_run_id=source_run), output)
            return
        found = read_items(client.knowledge_sources.list_runs, limit=limit, source_id=source_id)
    print_answer(
        found.to_json("runs"),
        output,
        rows="runs",
        id_field="run_id",
        show=lambda: _print_list(found.items, total_count=found.total_count),
    )


@app.command(epilog=examples("kb knowledge sources cancel Handbook"))
def cancel(context: typer.Context, source: SourceArgument, *, output: Output = "table") -> None:
    """End the run of a source within 5 seconds. What it has read is kept."""
    with open_client(context) as client:
        found = find_source(client, source)
        newest = client.knowledge_sources.list_runs(found.source_id, limit=1).runs
        if not newest or newest[0].status not in _OPEN:
            raise UnusableRequest(f"source {found.label!r} has no run that could be cancelled")
        cancelled = client.knowledge_sources.cancel_run(found.source_id, source_run_id=newest[0].run_id)
    print_answer(
        cancelled, output, id_field="run_id", show=lambda: print(f"cancelled {cancelled.run_id}; what it read is kept")
    )


def _wait_for_end(client: "Client", started: "SourceRunView") -> "SourceRunView":
    """Return a run after its end, and show on a terminal how far it is."""
    console = open_console(errors=True)
    with console.status("waiting for a runner") as status:
        found = started
        while found.status in _OPEN:
            time.sleep(POLL_S)
            found = client.knowledge_sources.get_run(started.source_id, source_run_id=started.run_id)
            if found.status == "running":
                status.update(f"reading: {_describe_counts(found.counts)}")
    return found


def _describe_counts(counts: "ItemCounts") -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.model_dump().items() if count) or "nothing yet"


def _print_list(found: "Sequence[SourceRunView]", *, total_count: int) -> None:
    if not found:
        print("It has not run yet. `kb knowledge sources run` runs it.")
        return
    print_table(
        ("id", "outcome", "asked for by", "began", "seconds", "items", "deleted", "error"),
        [
            (
                each.run_id,
                _describe_status(each),
                "the schedule" if each.trigger == "schedule" else each.requested_by,
                each.started_at,
                _count_seconds(each.started_at, each.finished_at),
                _describe_counts(each.counts),
                each.removed,
                each.error,
            )
            for each in found
        ],
        whole=("id", "outcome"),
    )
    print_more(len(found), total_count=total_count)


def _print_run(found: "SourceRunView", output: OutputFormat) -> None:
    def show() -> None:
        print_fields(
            {
                "run": found.run_id,
                "outcome": _describe_status(found),
                "error": found.error,
                "items": _describe_counts(found.counts),
                "entries deleted": found.removed,
                "entries kept although gone": found.withheld,
                "items with warnings": found.warnings or None,
                "bytes read": found.bytes_read,
                "began": found.started_at,
                "ended": found.finished_at,
            }
        )
        for message in found.messages:
            print(visible(message))

    print_answer(found, output, id_field="run_id", show=show)


def _describe_status(found: "SourceRunView") -> str:
    return f"{found.status}, cancelled" if found.cancelled else found.status


def _count_seconds(began: datetime | None, ended: datetime | None) -> float | None:
    return None if began is None or ended is None else round((ended - began).total_seconds(), 1)
