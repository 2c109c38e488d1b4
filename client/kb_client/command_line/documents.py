"""`kb docs`: push files, and show and change documents."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.connection import open_client
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.output import AsJson, print_fields, print_json, print_more, print_table, visible
from kb_client.command_line.unusable_request import UnusableRequest

if TYPE_CHECKING:
    from kb_contracts.api.document_lists import DocumentListFilter

app = command_group("docs", about="Push files, and show and change documents.")

DocumentArgument = Annotated[str, typer.Argument(metavar="DOCUMENT", help="Id of the document, as in `kb docs list`.")]


@app.command(
    epilog="Examples: `kb docs push handbook` makes a knowledge base of a folder. `kb docs push 'notes/**/*.md'"
    " report.pdf --kb research` sends chosen files. `kb docs push handbook --prune --watch` keeps both the same."
)
def push(
    context: typer.Context,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Files, folders, and patterns in quotation marks.")
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
        str | None, typer.Option("--source", metavar="NAME", help="Name to use instead of the folder's own.")
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Delete documents whose files are gone.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --prune: also if a folder is empty now.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on and push what changes, until Ctrl-C.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until documents are searchable.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")] = False,
    ocr: Annotated[bool, typer.Option("--ocr", help="Recognize scanned pages with tesseract.")] = False,
    ocr_languages: Annotated[
        str, typer.Option("--ocr-languages", metavar="LANGUAGES", help="Languages of scans, such as deu+eng.")
    ] = "eng",
    as_json: AsJson = False,
) -> None:
    """Send files, and wait until they are searchable. What the server has already is not sent again.

    Reads txt, md, html, pdf, docx, pptx, xlsx, csv, tsv and eml.
    """
    from kb_client.command_line.push.command import PushRequest
    from kb_client.command_line.push.command import push as push_files

    request = PushRequest(
        paths,
        kb=kb,
        tag_ids=tag or (),
        root=root,
        source=source,
        prune=prune,
        yes=yes,
        watch=watch,
        wait=not no_wait,
        dry_run=dry_run,
        ocr=ocr,
        ocr_languages=ocr_languages,
        as_json=as_json,
    )
    raise typer.Exit(push_files(context, request))


@app.command("list", epilog="Example: kb docs list --kb handbook --status failed")
def list_all(
    context: typer.Context,
    *,
    kb: Annotated[str | None, typer.Option("--kb", metavar="KB", help="Name or id of a knowledge base.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Documents with this tag.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Part of the name.")] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="indexed, empty, pending, running, failed, paused, deleted, ...")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Number of rows; 0 for all.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List documents."""
    wanted = cast("DocumentListFilter | None", status)
    with open_client(context) as client:
        kb_id = None if kb is None else find_knowledge_base(client, kb).kb_id
        page = client.documents.list(name_search=name, tag_id=tag, status=wanted, kb_id=kb_id, limit=1)
        rows = client.documents.list.iterate(name_search=name, tag_id=tag, status=wanted, kb_id=kb_id)
        found = [each for each, _ in zip(rows, range(limit or page.total_count), strict=False)]
    if as_json:
        print_json({"documents": [each.model_dump(mode="json") for each in found], "total_count": page.total_count})
        return
    if not found:
        print("No document was found.")
        return
    print_table(
        ("name", "id", "state", "tags"),
        [
            (
                each.document_name,
                each.document_id,
                ", ".join(sorted({place.status for place in each.knowledge_bases})) or each.state,
                each.tag_ids,
            )
            for each in found
        ],
        whole=("id",),
    )
    print_more(len(found), total_count=page.total_count)


@app.command(epilog="Example: kb docs show handbook.travel-4f1c2a9b7d3e5a60")
def show(context: typer.Context, document: DocumentArgument, *, as_json: AsJson = False) -> None:
    """Show a document and its state in each knowledge base."""
    with open_client(context) as client:
        found = client.documents.get(document)
    if as_json:
        print_json(found)
        return
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
    if not found.knowledge_bases:
        print("\nIt is in no knowledge base: none has one of its tags.")
        return
    print()
    print_table(
        ("knowledge base", "id", "state", "passages", "indexed"),
        [(each.name, each.kb_id, each.status, each.chunk_count, each.indexed_at) for each in found.knowledge_bases],
        whole=("id",),
    )
    for each in found.knowledge_bases:
        if each.error is not None:
            print(f"{each.name}: {visible(each.error.message)}")


@app.command(epilog="Example: kb docs tag handbook.travel-4f1c2a9b7d3e5a60 --add policy --remove draft")
def tag(
    context: typer.Context,
    document: DocumentArgument,
    *,
    add: Annotated[list[str] | None, typer.Option("--add", metavar="TAG", help="Tag to add.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", metavar="TAG", help="Tag to remove.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add and remove tags, which decide the knowledge bases that a document is in."""
    if not add and not remove:
        raise typer.BadParameter("say which tag to --add or --remove")
    with open_client(context) as client:
        found = client.documents.get(document)
        tag_ids = [each for each in dict.fromkeys([*found.tag_ids, *(add or [])]) if each not in (remove or [])]
        accepted = client.documents.replace_tags(document, tag_ids=tag_ids)
    if as_json:
        print_json(accepted)
    else:
        print(f"{document} has the tags {', '.join(tag_ids) or '(none)'} now")


@app.command(epilog="Example: kb docs delete handbook.travel-4f1c2a9b7d3e5a60 --yes")
def delete(
    context: typer.Context,
    documents: Annotated[list[str], typer.Argument(metavar="DOCUMENT...", help="Ids of documents.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete documents from all knowledge bases."""
    if not yes:
        if not sys.stdin.isatty():
            raise UnusableRequest(
                f"{len(documents)} documents would be deleted, and there is no terminal to ask on: pass --yes"
            )
        typer.confirm(f"Delete {len(documents)} documents from all knowledge bases?", abort=True)
    with open_client(context) as client:
        for each in documents:
            # It answers 404 for an id that does not exist, while a deletion would be kept for one.
            client.documents.get(each)
        accepted = [client.documents.delete(each) for each in documents]
    if as_json:
        print_json({"documents": [each.model_dump(mode="json") for each in accepted]})
    else:
        print(f"deleted {', '.join(documents)}")


@app.command(epilog="Example: kb docs text handbook.travel-4f1c2a9b7d3e5a60 > travel.txt")
def text(context: typer.Context, document: DocumentArgument, *, as_json: AsJson = False) -> None:
    """Print the text of a document, as it is indexed."""
    with open_client(context) as client:
        found = client.documents.get_text(document)
        if as_json:
            print_json(found)
            return
        while True:
            sys.stdout.write(visible(found.text) if sys.stdout.isatty() else found.text)
            if found.end >= found.length:
                break
            found = client.documents.get_text(document, start=found.end)
    if sys.stdout.isatty():
        print()
