"""`kb docs`: push files, and show and change documents."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.confirmation import confirm
from kb_client.command_line.connection import open_client
from kb_client.command_line.counts import count_documents, count_passages
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.lists import USUAL_ROWS, RowLimit, read_items
from kb_client.command_line.output import print_answer, print_fields, print_json, print_more, visible
from kb_client.command_line.output_format import Output, TableOrJson
from kb_client.command_line.tables import print_table
from kb_client.command_line.unusable_request import UnusableRequest
from kb_client.errors import HttpNotFound, HttpUnprocessableContent

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.document_lists import DocumentListFilter, DocumentSummary
    from kb_contracts.api.documents import DocumentView, MembershipView

app = command_group("docs", about="Push files, and show and change documents.")

_NAMED_DOCUMENTS: Final = 10

DocumentArgument = Annotated[str, typer.Argument(metavar="DOCUMENT", help="Id of the document, as in `kb docs list`.")]


@app.command(
    epilog=examples(
        "kb docs push handbook",
        "kb docs push 'notes/**/*.md' report.pdf --kb research",
        "kb docs push handbook --prune --watch",
    )
)
def push(
    context: typer.Context,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files, folders, and patterns in quotation marks.")
    ],
    *,
    kb: Annotated[
        str | None,
        typer.Option("--kb", metavar="KB", help="Knowledge base, created if new. Default: called like the folder."),
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Tag to give; alone, instead of --kb.")
    ] = None,
    root: Annotated[
        Path | None, typer.Option("--root", metavar="FOLDER", help="Folder that the ids of documents are relative to.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="NAME", help="Name to use instead of the folder's own, on any machine."),
    ] = None,
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Take over the documents of another folder with this name, such as a moved one."),
    ] = False,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude", metavar="PATTERN", help="Leave out files and folders, as in .gitignore and .kbignore."
        ),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete documents of this folder whose files are gone or excluded.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --prune: also if a folder is empty now, or has just been adopted.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 also if a file can't be read.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on and push what changes, until Ctrl-C.")] = False,
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait",
            help="Do not wait until documents are searchable. Waiting ends when nothing is indexed for 5 minutes.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")] = False,
    ocr: Annotated[bool, typer.Option("--ocr", help="Recognize scanned pages with tesseract.")] = False,
    ocr_languages: Annotated[
        str, typer.Option("--ocr-languages", metavar="LANGUAGES", help="Languages of scans, such as deu+eng.")
    ] = "eng",
    output: TableOrJson = "table",
) -> None:
    """Send files, and wait until they are searchable. What the server has already is not sent again.

    Reads txt, md, html, pdf, docx, pptx, xlsx, csv, tsv and eml.
    """
    from kb_client.command_line.push.command import push as push_files
    from kb_client.command_line.push.request import PushRequest

    request = PushRequest(
        paths,
        kb=kb,
        tag_ids=tag or (),
        root=root,
        source=source,
        adopt=adopt,
        exclude=exclude or (),
        prune=prune,
        yes=yes,
        strict=strict,
        watch=watch,
        wait=not no_wait,
        dry_run=dry_run,
        ocr=ocr,
        ocr_languages=ocr_languages,
        as_json=output == "json",
    )
    raise typer.Exit(push_files(context, request))


@app.command("list", epilog=examples("kb docs list --kb handbook --status failed"))
def list_all(
    context: typer.Context,
    *,
    kb: Annotated[str | None, typer.Option("--kb", metavar="KB", help="Name or id of a knowledge base.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Documents with this tag.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Part of the name.")] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="indexed, empty, pending, running, failed, paused, deleted, ...")
    ] = None,
    limit: RowLimit = USUAL_ROWS,
    output: Output = "table",
) -> None:
    """List documents."""
    with open_client(context) as client:
        found = read_items(
            client.documents.list,
            limit=limit,
            name_search=name,
            tag_id=tag,
            status=cast("DocumentListFilter | None", status),
            kb_id=None if kb is None else find_knowledge_base(client, kb).kb_id,
        )
    print_answer(
        found.to_json("documents"),
        output,
        rows="documents",
        id_field="document_id",
        show=lambda: _print_list(found.items, total_count=found.total_count),
    )


@app.command(epilog=examples("kb docs show handbook.travel-4f1c2a9b7d3e5a60"))
def show(context: typer.Context, document: DocumentArgument, *, output: Output = "table") -> None:
    """Show a document and its state in each knowledge base."""
    with open_client(context) as client:
        found = client.documents.get(document)
    print_answer(found, output, id_field="document_id", show=lambda: _print_document(found))


@app.command(epilog=examples("kb docs tag handbook.travel-4f1c2a9b7d3e5a60 --add policy --remove draft"))
def tag(
    context: typer.Context,
    document: DocumentArgument,
    *,
    add: Annotated[list[str] | None, typer.Option("--add", metavar="TAG", help="Tag to add.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", metavar="TAG", help="Tag to remove.")] = None,
    output: Output = "table",
) -> None:
    """Add and remove tags, which decide the knowledge bases that a document is in."""
    if not add and not remove:
        raise typer.BadParameter("say which tag to --add or --remove")
    with open_client(context) as client:
        found = client.documents.get(document)
        tag_ids = [each for each in dict.fromkeys([*found.tag_ids, *(add or [])]) if each not in (remove or [])]
        accepted = client.documents.replace_tags(document, tag_ids=tag_ids)
    print_answer(
        accepted,
        output,
        id_field="document_id",
        show=lambda: print(f"{document} has the tags {', '.join(tag_ids) or '(none)'} now"),
    )


@app.command(epilog=examples("kb docs delete handbook.travel-4f1c2a9b7d3e5a60 --yes"))
def delete(
    context: typer.Context,
    documents: Annotated[list[str], typer.Argument(metavar="DOCUMENT", help="Ids of documents.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Output = "table",
) -> None:
    """Delete documents from all knowledge bases."""
    with open_client(context) as client:
        # A deletion of an id that does not exist would be kept for a document that comes later.
        names = [_find_name(client, each) for each in documents]
        shown = ", ".join(names[:_NAMED_DOCUMENTS]) + (", ..." if len(names) > _NAMED_DOCUMENTS else "")
        confirm(f"Delete {count_documents(len(documents))} ({shown}) in all knowledge bases?", yes=yes)
        accepted = [client.documents.delete(each) for each in documents]
    print_answer(
        {"documents": [each.model_dump(mode="json") for each in accepted]},
        output,
        rows="documents",
        id_field="document_id",
        show=lambda: print(f"deleted {', '.join(documents)}"),
    )


def _find_name(client: "Client", document_id: str) -> str:
    """Return the name of a document that is there. Raises UnusableRequest."""
    try:
        return visible(client.documents.get(document_id).document_name or document_id)
    except (HttpNotFound, HttpUnprocessableContent):
        raise UnusableRequest(
            f"there is no document with the id {document_id!r}. Nothing was deleted; `kb docs list --name"
            f" {shlex.quote(document_id)}` finds ids by names"
        ) from None


@app.command(epilog=examples("kb docs text handbook.travel-4f1c2a9b7d3e5a60 > travel.txt"))
def text(context: typer.Context, document: DocumentArgument, *, output: TableOrJson = "table") -> None:
    """Print the text of a document, as it is indexed."""
    with open_client(context) as client:
        found = client.documents.get_text(document)
        if output == "json":
            print_json(found)
            return
        while True:
            sys.stdout.write(visible(found.text) if sys.stdout.isatty() else found.text)
            if found.end >= found.length:
                break
            found = client.documents.get_text(document, start=found.end)
    if sys.stdout.isatty():
        print()


def _print_list(found: "Sequence[DocumentSummary]", *, total_count: int) -> None:
    if not found:
        print("No document was found.")
        return
    print_table(
        ("name", "id", "state", "tags"),
        [
            (
                each.document_name,
                each.document_id,
                _state(each),
                each.tag_ids,
            )
            for each in found
        ],
        whole=("id",),
    )
    for each in found:
        for error in [place.error for place in each.knowledge_bases if place.status == "failed" and place.error]:
            print(f"{visible(each.document_name or each.document_id)}: {visible(error.message)}")
    print_more(len(found), total_count=total_count)


def _state(found: "DocumentSummary") -> str:
    state = ", ".join(sorted({place.status for place in found.knowledge_bases})) or found.state
    return f"{state}, with warnings" if found.has_warnings else state


def _print_document(found: "DocumentView") -> None:
    print_fields(
        {
            "name": found.document_name,
            "id": found.document_id,
            "tags": found.tag_ids,
            "date": found.upload_date,
            "type": found.content_type,
            **{f"metadata {key}": value for key, value in found.metadata.items()},
        }
    )
    for warning in found.warnings:
        about = "read from its file" if warning.field == "text" else f"left out: {visible(warning.field)}"
        print(f"{about}: {visible(warning.message)}")
    if not found.knowledge_bases:
        print("\nIt is in no knowledge base: none has one of its tags.")
        return
    print()
    print_table(
        ("knowledge base", "id", "state", "passages", "indexed"),
        [
            (each.name, each.kb_id, describe_status(each), each.chunk_count, each.indexed_at)
            for each in found.knowledge_bases
        ],
        whole=("id",),
    )
    for each in found.knowledge_bases:
        if each.error is not None:
            print(f"{each.name}: {visible(each.error.message)}")


def describe_status(place: "MembershipView") -> str:
    """Say the state of a document in a knowledge base, with how far it is while it is being indexed."""
    if place.embedding is None:
        return place.status
    return f"{place.status}, {place.embedding.embedded_count:,} of {count_passages(place.embedding.chunk_count)}"
