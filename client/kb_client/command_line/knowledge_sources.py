"""`kb knowledge sources`: web sites, files and MCP servers that entries are fetched from."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kb_client.command_line.confirmation import confirm
from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.lists import USUAL_ROWS, RowLimit, read_items
from kb_client.command_line.output import print_answer, print_fields, print_more, visible
from kb_client.command_line.output_format import Output, OutputFormat, TableOrJson
from kb_client.command_line.source_config import (
    DepthOption,
    PrefixOption,
    ResourcesOption,
    SourceFileOption,
    SourceOptions,
    SourceServerOption,
    SourceUrlOption,
    build_config,
    find_kind,
    require_kind,
    upload,
)
from kb_client.command_line.source_group import app
from kb_client.command_line.source_names import SourceArgument, find_source
from kb_client.command_line.tables import print_table
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_contracts.api.knowledge_sources import KnowledgeSourceView, SourcePreview

CronOption = Annotated[
    str | None,
    typer.Option("--cron", metavar="CRON", help='When it runs by itself: five fields in UTC, such as "0 6 * * 1-5".'),
]


@app.command("list", epilog=examples("kb knowledge sources list"))
def list_all(context: typer.Context, *, limit: RowLimit = USUAL_ROWS, output: Output = "table") -> None:
    """List the sources with the outcomes of their last runs, newest first."""
    with open_client(context) as client:
        found = read_items(client.knowledge_sources.list, limit=limit)
    print_answer(
        found.to_json("sources"),
        output,
        rows="sources",
        id_field="source_id",
        show=lambda: _print_list(found.items, total_count=found.total_count),
    )


@app.command(
    epilog=examples(
        "kb knowledge sources add Handbook --url https://example.com/handbook/ --prefix /handbook/",
        'kb knowledge sources add News --url https://example.com/news/ --depth 2 --cron "0 6 * * 1-5"',
        "kb knowledge sources add Travel --file travel.pdf",
        'kb knowledge sources add Wiki --mcp-server Wiki --resources "wiki://handbook/*"',
    )
)
def add(
    context: typer.Context,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="Name that people see.")],
    *,
    url: SourceUrlOption = None,
    depth: DepthOption = None,
    prefix: PrefixOption = None,
    file: SourceFileOption = None,
    mcp_server: SourceServerOption = None,
    resources: ResourcesOption = None,
    cron: CronOption = None,
    output: Output = "table",
) -> None:
    """Add a source. It is read when `kb knowledge sources run` asks for it, and at the times of --cron."""
    options = SourceOptions(url, depth, prefix, file, mcp_server, resources)
    kind = find_kind(options)
    with open_client(context) as client:
        created = client.knowledge_sources.create(
            label=label,
            kind=kind,
            config=build_config(client, options),
            cron_expression=UNSET if cron is None else cron,
        )
    _print_source(created, output)


@app.command(epilog=examples("kb knowledge sources get Handbook"))
def get(context: typer.Context, source: SourceArgument, *, output: Output = "table") -> None:
    """Show a source with the outcome of its last run."""
    with open_client(context) as client:
        found = find_source(client, source)
    _print_source(found, output)


@app.command(
    epilog=examples(
        "kb knowledge sources edit Handbook --depth 2",
        "kb knowledge sources edit Travel --file travel.pdf",
        "kb knowledge sources edit Handbook --no-cron",
    )
)
def edit(
    context: typer.Context,
    source: SourceArgument,
    *,
    label: Annotated[str | None, typer.Option("--label", metavar="LABEL", help="New label.")] = None,
    url: SourceUrlOption = None,
    depth: DepthOption = None,
    prefix: PrefixOption = None,
    file: SourceFileOption = None,
    mcp_server: SourceServerOption = None,
    resources: ResourcesOption = None,
    cron: CronOption = None,
    no_cron: Annotated[bool, typer.Option("--no-cron", help="Run only when it is asked to.")] = False,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether it runs by itself at the times of --cron.")
    ] = None,
    output: Output = "table",
) -> None:
    """Change a source. What is not named stays as it is; --file uploads a new version of its file."""
    if cron is not None and no_cron:
        raise typer.BadParameter("pass --cron or --no-cron, not both")
    options = SourceOptions(url, depth, prefix, file, mcp_server, resources)
    given: dict[str, Any] = {} if label is None else {"label": label}
    if cron is not None or no_cron:
        given["cron_expression"] = cron
    if enabled is not None:
        given["enabled"] = enabled
    if not given and not options.given:
        raise typer.BadParameter("say what to change, for example --url or --cron")
    with open_client(context) as client:
        found = find_source(client, source)
        require_kind(options, found.kind)
        if options.given:
            # The API replaces all of it.
            given["config"] = found.config.model_dump(exclude_none=True) | build_config(client, options)
        changed = client.knowledge_sources.update(found.source_id, **given)
    _print_source(changed, output)


@app.command(epilog=examples("kb knowledge sources delete Handbook --yes"))
def delete(
    context: typer.Context,
    source: SourceArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Output = "table",
) -> None:
    """Delete a source with its history. Its entries stay, and belong to no source from then on."""
    with open_client(context) as client:
        found = find_source(client, source)
        confirm(f"Delete the source {found.label!r}? Its entries stay.", yes=yes)
        answer = client.knowledge_sources.delete(found.source_id)
    print_answer(
        {"source_id": found.source_id, **answer.model_dump()},
        output,
        id_field="source_id",
        show=lambda: print(f"deleted {found.label} ({found.source_id}); its entries stay"),
    )


@app.command(epilog=examples("kb knowledge sources preview Handbook"))
def preview(context: typer.Context, source: SourceArgument, *, output: TableOrJson = "table") -> None:
    """Read the first items of a source, and show what would become entries. Nothing is stored."""
    with open_client(context) as client:
        read = client.knowledge_sources.preview(find_source(client, source).source_id)
    print_answer(read, output, show=lambda: _print_preview(read))


@app.command("upload", epilog=examples("kb knowledge sources upload travel.pdf"))
def upload_file(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File: txt, md, html, csv, pdf or docx.")],
    *,
    output: Output = "table",
) -> None:
    """Upload a file for a source that is created over HTTP. `add --file` and `edit --file` upload by themselves."""
    with open_client(context) as client:
        uploaded = upload(client, file)
    print_answer(
        uploaded,
        output,
        id_field="file_id",
        show=lambda: print(f"{uploaded.file_id}  {uploaded.filename}, {uploaded.size_bytes:,} bytes"),
    )


def _print_list(found: "Sequence[KnowledgeSourceView]", *, total_count: int) -> None:
    if not found:
        print("There is no source. `kb knowledge sources add` adds one.")
        return
    print_table(
        ("label", "id", "outcome", "kind", "cron", "last run", "entries", "next run"),
        [
            (
                each.label,
                each.source_id,
                each.last_run_status,
                each.kind,
                each.cron_expression if each.enabled else f"{each.cron_expression or '-'} (disabled)",
                each.last_run_at,
                each.last_run_entry_count,
                each.next_run_at,
            )
            for each in found
        ],
        whole=("id",),
    )
    print_more(len(found), total_count=total_count)


def _print_source(source: "KnowledgeSourceView", output: OutputFormat) -> None:
    def show() -> None:
        print_fields(
            {
                "id": source.source_id,
                "label": source.label,
                "kind": source.kind,
                **source.config.model_dump(exclude_none=True),
                "cron": source.cron_expression,
                "enabled": source.enabled,
                "next run": source.next_run_at,
                "last run": source.last_run_at,
                "outcome": source.last_run_status,
                "error": source.last_run_error,
                "entries": source.last_run_entry_count,
            }
        )
        if source.last_run_at is None:
            print(f"\nSee what it reads: kb knowledge sources preview {source.source_id}")
            print(f"Read it:           kb knowledge sources run {source.source_id} --wait")

    print_answer(source, output, id_field="source_id", show=show)


def _print_preview(read: "SourcePreview") -> None:
    for item in read.items:
        print(f"{visible(item.title)}  ({visible(item.key)}, {item.character_count:,} characters)")
        for line in visible(item.beginning).splitlines():
            print(f"    {line}")
        print()
    for message in read.messages:
        print(visible(message))
    if read.error is not None:
        print(visible(read.error))
    if not read.items:
        print("Nothing would become an entry.")
