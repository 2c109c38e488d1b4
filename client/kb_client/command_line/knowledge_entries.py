"""`kb knowledge`: entries, which people write and searches find."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from kb_client.command_line.confirmation import confirm
from kb_client.command_line.connection import open_client
from kb_client.command_line.definitions import edit_text, read_text
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_group import app
from kb_client.command_line.lists import USUAL_ROWS, ListedItems, RowLimit
from kb_client.command_line.output import print_answer, print_fields, print_more
from kb_client.command_line.output_format import Output, OutputFormat
from kb_client.command_line.source_names import find_source
from kb_client.command_line.tables import print_table

if TYPE_CHECKING:
    from kb_contracts.api.knowledge_entries import EntrySummary, EntryView

_REMOVABLE: Final = ("knowledge_type", "info_type", "entity_id", "embedding_text")

EntryArgument = Annotated[str, typer.Argument(metavar="ENTRY", help="Id of the entry.")]
EntryContentOption = Annotated[str | None, typer.Option("--content", metavar="TEXT", help="Text of the entry.")]
EntryContentFileOption = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="File with the text; - for standard input.")
]
EntryTagOption = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Tag; other knowledge bases with it find it, too. May be repeated."),
]
EntryTypeOption = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="Type, such as note, rule, pattern or decision.")
]
EntryKnowledgeTypeOption = Annotated[
    str | None,
    typer.Option(
        "--knowledge-type",
        metavar="TYPE",
        help="Makes it a piece: fact, instruction, preference, procedure, note or episodic.",
    ),
]
EntryInfoTypeOption = Annotated[
    str | None, typer.Option("--info-type", metavar="TYPE", help="Section of a prompt that a piece goes to.")
]
EntryEntityOption = Annotated[
    str | None, typer.Option("--entity", metavar="ENTITY", help="Entity that it belongs to, such as user:alice.")
]
EmbeddingTextOption = Annotated[
    str | None,
    typer.Option(
        "--embedding-text",
        metavar="TEXT",
        help="Text that is embedded in place of the entry's, such as the questions that it answers. Searches show the "
        "entry's.",
    ),
]

OverrideReasonOption = Annotated[
    str | None,
    typer.Option(
        "--override-reason",
        metavar="REASON",
        help="Store a text that only looks as if it contained a credential, and say why. The audit log keeps it.",
    ),
]


@app.command(
    epilog=examples(
        'kb knowledge add "Hotels in London" --content "At most 220 euros a night." --tag travel',
        "kb knowledge add --file preference.md --knowledge-type preference --entity user:alice",
    )
)
def add(
    context: typer.Context,
    title: Annotated[
        str | None, typer.Argument(metavar="TITLE", help="Title; a piece without one has its first line.")
    ] = None,
    *,
    entry_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Id of the entry; else a new one.")] = None,
    content: EntryContentOption = None,
    file: EntryContentFileOption = None,
    tag: EntryTagOption = None,
    type_name: EntryTypeOption = None,
    knowledge_type: EntryKnowledgeTypeOption = None,
    info_type: EntryInfoTypeOption = None,
    entity: EntryEntityOption = None,
    embedding_text: EmbeddingTextOption = None,
    override_reason: OverrideReasonOption = None,
    output: Output = "table",
) -> None:
    """Add an entry. It is searchable some seconds later."""
    given = _collect_fields(
        title=title,
        entry_id=entry_id,
        content=_read_content(content, file),
        tags=tag,
        type=type_name,
        knowledge_type=knowledge_type,
        info_type=info_type,
        entity_id=entity,
        embedding_text=embedding_text,
        override_reason=override_reason,
    )
    if not given.get("content"):
        raise typer.BadParameter("an entry needs --content or --file")
    with open_client(context) as client:
        created = client.knowledge_entries.create(**given)
    _print_entry(created, output)


@app.command("list", epilog=examples("kb knowledge list", "kb knowledge list --search hotel --status error"))
def list_all(
    context: typer.Context,
    *,
    search: Annotated[str | None, typer.Option("--search", metavar="TEXT", help="Part of the title or text.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Only with this tag.")] = None,
    status: Annotated[
        Literal["pending", "ready", "error"] | None, typer.Option("--status", help="Only with this state.")
    ] = None,
    entity: Annotated[
        str | None, typer.Option("--entity", metavar="ENTITY", help="Only those that belong to this entity.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="SOURCE", help="Only those of this source, by label or id.")
    ] = None,
    type_name: Annotated[
        str | None,
        typer.Option("--type", metavar="TYPE", help="Only of this type, or from sources of this kind, as url_crawl."),
    ] = None,
    limit: RowLimit = USUAL_ROWS,
    output: Output = "table",
) -> None:
    """List entries, newest first."""
    filters: dict[str, Any] = {"q": search, "tag": tag, "embedding_status": status, "entity_id": entity}
    filters["source_type"] = type_name
    with open_client(context) as client:
        filters["source_id"] = None if source is None else find_source(client, source).source_id
        total_count = client.knowledge_entries.list(**filters, limit=1).total_count
        entries = list(islice(client.knowledge_entries.list.iterate(**filters), limit or None))
    found = ListedItems(entries, total_count)
    print_answer(
        found.to_json("entries"),
        output,
        rows="entries",
        id_field="entry_id",
        show=lambda: _print_list(entries, total_count=total_count),
    )


@app.command(epilog=examples("kb knowledge get les-rans-init"))
def get(context: typer.Context, entry: EntryArgument, *, output: Output = "table") -> None:
    """Show an entry with its whole text."""
    with open_client(context) as client:
        found = client.knowledge_entries.get(entry)
    _print_entry(found, output)


@app.command(epilog=examples("kb knowledge edit les-rans-init", "kb knowledge edit les-rans-init --tag les --tag rans"))
def edit(
    context: typer.Context,
    entry: EntryArgument,
    *,
    title: Annotated[str | None, typer.Option("--title", metavar="TITLE", help="New title.")] = None,
    content: EntryContentOption = None,
    file: EntryContentFileOption = None,
    tag: EntryTagOption = None,
    type_name: EntryTypeOption = None,
    knowledge_type: EntryKnowledgeTypeOption = None,
    info_type: EntryInfoTypeOption = None,
    entity: EntryEntityOption = None,
    embedding_text: EmbeddingTextOption = None,
    override_reason: OverrideReasonOption = None,
    output: Output = "table",
) -> None:
    """Change an entry. What is not named stays as it is; without options, an editor opens with the text.

    A change that somebody else makes while the editor is open is not overwritten. An empty value, such as --entity "",
    removes --knowledge-type, --info-type, --entity or --embedding-text.
    """
    given = _collect_fields(
        title=title,
        content=_read_content(content, file),
        tags=tag,
        type=type_name,
        knowledge_type=knowledge_type,
        info_type=info_type,
        entity_id=entity,
        embedding_text=embedding_text,
        override_reason=override_reason,
    )
    given |= {name: None for name in _REMOVABLE if given.get(name) == ""}
    with open_client(context) as client:
        found = client.knowledge_entries.get.with_raw_response(entry)
        if not given.keys() - {"override_reason"}:
            given |= {"content": edit_text(found.parsed.content)}
        changed = client.knowledge_entries.update(entry, **given, if_match=found.etag)
    _print_entry(changed, output)


@app.command(epilog=examples("kb knowledge retry les-rans-init"))
def retry(context: typer.Context, entry: EntryArgument, *, output: Output = "table") -> None:
    """Index an entry again now whose state is error. `kb knowledge get` says when that happens by itself."""
    with open_client(context) as client:
        repeated = client.knowledge_entries.retry(entry)
    _print_entry(repeated, output)


@app.command(epilog=examples("kb knowledge delete les-rans-init --yes"))
def delete(
    context: typer.Context,
    entry: EntryArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Output = "table",
) -> None:
    """Delete an entry. Runs that cite it keep its text."""
    with open_client(context) as client:
        found = client.knowledge_entries.get(entry)
        confirm(f"Delete the entry {found.title!r}?", yes=yes)
        answer = client.knowledge_entries.delete(entry)
    print_answer(
        {"entry_id": entry, **answer.model_dump()},
        output,
        id_field="entry_id",
        show=lambda: print(f"deleted {found.title} ({entry})"),
    )


def _read_content(content: str | None, file: Path | None) -> str | None:
    if content is not None and file is not None:
        raise typer.BadParameter("pass --content or --file, not both")
    return content if file is None else read_text(file)


def _collect_fields(**fields: Any) -> dict[str, Any]:
    """Return the fields of the API that the options set."""
    return {name: value for name, value in fields.items() if value is not None}


def _print_list(found: "Sequence[EntrySummary]", *, total_count: int) -> None:
    if not found:
        print("There is no entry. `kb knowledge add` adds one.")
        return
    print_table(
        ("title", "id", "state", "type", "citations", "created"),
        [(e.title, e.entry_id, e.embedding_status, e.source_type, e.cites_30d, e.created_at) for e in found],
        whole=("id",),
    )
    print_more(len(found), total_count=total_count)


def _print_entry(entry: "EntryView", output: OutputFormat) -> None:
    def show() -> None:
        print_fields(
            {
                "id": entry.entry_id,
                "title": entry.title,
                "type": entry.source_type,
                "state": entry.embedding_status,
                "error": None if entry.embedding_error is None else entry.embedding_error.message,
                "next attempt": None if entry.embedding_error is None else entry.embedding_error.next_attempt_at,
                "tags": ", ".join(entry.tags) or None,
                "knowledge type": entry.knowledge_type,
                "info type": entry.info_type,
                "entity": entry.entity_id,
                "citations in 30 days": entry.cites_30d,
                "changed": entry.updated_at,
                "embedding text": entry.embedding_text,
                "content": entry.content,
            }
        )

    print_answer(entry, output, id_field="entry_id", show=show)
