"""`kb kb`: create, change and watch knowledge bases."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from kb_client.command_line.command_group import command_group
from kb_client.command_line.confirmation import confirm
from kb_client.command_line.connection import open_client
from kb_client.command_line.counts import count_passages, describe_seconds
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_base_actions import carry_out_on_each
from kb_client.command_line.knowledge_base_names import (
    KnowledgeBaseArgument,
    KnowledgeBaseArguments,
    find_knowledge_base,
)
from kb_client.command_line.lists import USUAL_ROWS, RowLimit, read_items
from kb_client.command_line.output import print_answer, print_fields, print_more
from kb_client.command_line.output_format import Output, OutputFormat, OutputWithoutIds
from kb_client.command_line.tables import print_table
from kb_client.unset import UNSET, Unset

if TYPE_CHECKING:
    from kb_contracts.api.knowledge_bases import (
        ChunkerName,
        KnowledgeBaseStats,
        KnowledgeBaseView,
        ShownStatus,
        TextAnalyzer,
    )
    from kb_contracts.api.memberships import ExplanationView
    from kb_contracts.api.previews import KnowledgeBasePreview

app = command_group("kb", about="Create, change and watch knowledge bases.")

TagOptions = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Tag whose documents belong to it. Repeat the option for several tags."),
]
Chunker = Annotated[str | None, typer.Option("--chunker", help="Splits texts: recursive, sentence, token, ...")]
ChunkSize = Annotated[int | None, typer.Option("--chunk-size", help="Greatest number of tokens of a passage.")]
ChunkOverlap = Annotated[int | None, typer.Option("--chunk-overlap", help="Tokens that a passage repeats.")]
RefuseSensitiveOption = Annotated[
    bool | None,
    typer.Option(
        "--refuse-sensitive/--no-refuse-sensitive",
        help="Refuse documents whose texts contain a credential, such as a password.",
    ),
]
EmbeddingModelOption = Annotated[str | None, typer.Option("--model", help="Embedding model.")]


@app.command("list", epilog=examples("kb kb list --name hand"))
def list_all(
    context: typer.Context,
    *,
    name: Annotated[str | None, typer.Option("--name", help="Part of the name.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="creating, building, indexing, active, error.")] = None,
    limit: RowLimit = USUAL_ROWS,
    output: Output = "table",
) -> None:
    """List knowledge bases."""
    with open_client(context) as client:
        found = read_items(
            client.knowledge_bases.list,
            limit=limit,
            name_search=name,
            status=cast("ShownStatus | None", status),
            sort="name",
        )
    print_answer(
        found.to_json("knowledge_bases"),
        output,
        rows="knowledge_bases",
        id_field="kb_id",
        show=lambda: _print_list(found.items, total_count=found.total_count),
    )


@app.command(epilog=examples("kb kb show handbook"))
def show(context: typer.Context, kb: KnowledgeBaseArgument, *, output: Output = "table") -> None:
    """Show the settings and the state of a knowledge base."""
    with open_client(context) as client:
        found = find_knowledge_base(client, kb)
    _print_knowledge_base(found, output)


@app.command(epilog=examples('kb kb create "Staff handbook" --tag handbook --tag policy'))
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the knowledge base.")],
    *,
    tag: TagOptions = None,
    description: Annotated[
        str | None, typer.Option("--description", help="What is in it, for people and models.")
    ] = None,
    chunker: Chunker = None,
    chunk_size: ChunkSize = None,
    chunk_overlap: ChunkOverlap = None,
    model: EmbeddingModelOption = None,
    analyzer: Annotated[
        str | None,
        typer.Option("--analyzer", help="Text analyzer, such as lucene.english. Default: fits the documents."),
    ] = None,
    refuse_sensitive: RefuseSensitiveOption = None,
    output: Output = "table",
) -> None:
    """Create a knowledge base of all documents with one of the tags. Tags that do not exist are created."""
    from kb_client.command_line.creation import suggest_analyzer, tags_created

    with open_client(context) as client:
        tags = tag or []
        suggestion = None
        with tags_created(client, tags):
            if analyzer is None and tags:
                suggestion = suggest_analyzer(client, tag_ids=tags)
            created = client.knowledge_bases.create(
                name=name,
                tag_ids=tags,
                description=_unset_if_none(description),
                chunker_type=cast("ChunkerName | Unset", _unset_if_none(chunker)),
                chunk_size=_unset_if_none(chunk_size),
                chunk_overlap=_unset_if_none(chunk_overlap),
                embedding_model=_unset_if_none(model),
                text_analyzer=cast(
                    "TextAnalyzer | Unset", _unset_if_none(analyzer or (suggestion and suggestion.analyzer))
                ),
                refuse_sensitive=_unset_if_none(refuse_sensitive),
            )
    if suggestion is not None and output == "table":
        print(suggestion.sentence)
    _print_knowledge_base(created, output)


@app.command(epilog=examples("kb kb edit handbook --name Handbook --add-tag policy"))
def edit(
    context: typer.Context,
    kb: KnowledgeBaseArgument,
    *,
    name: Annotated[str | None, typer.Option("--name", help="New name.")] = None,
    description: Annotated[str | None, typer.Option("--description", help="New description.")] = None,
    add_tag: Annotated[list[str] | None, typer.Option("--add-tag", help="Tag to add.")] = None,
    remove_tag: Annotated[list[str] | None, typer.Option("--remove-tag", help="Tag to remove.")] = None,
    neighbors: Annotated[
        int | None, typer.Option("--neighbors", help="Passages before and after a match that searches return.")
    ] = None,
    min_score: Annotated[float | None, typer.Option("--min-score", help="Smallest relevance of matches.")] = None,
    refuse_sensitive: RefuseSensitiveOption = None,
    output: Output = "table",
) -> None:
    """Change a knowledge base. What is not named stays as it is."""
    from kb_client.command_line.creation import create_tags

    if all(each is None for each in (name, description, add_tag, remove_tag, neighbors, min_score, refuse_sensitive)):
        raise typer.BadParameter("say what to change, for example --name or --add-tag")
    with open_client(context) as client:
        found = find_knowledge_base(client, kb)
        tag_ids: list[str] | Unset = UNSET
        etag = None
        if add_tag or remove_tag:
            create_tags(client, add_tag or [])
            # Tags that somebody else changes at this moment are not overwritten.
            read = client.knowledge_bases.get.with_raw_response(found.kb_id)
            found, etag = read.parsed, read.etag
            tag_ids = [
                each for each in dict.fromkeys([*found.tag_ids, *(add_tag or [])]) if each not in (remove_tag or [])
            ]
        changed = client.knowledge_bases.update(
            found.kb_id,
            name=_unset_if_none(name),
            description=_unset_if_none(description),
            tag_ids=tag_ids,
            coalesce_neighbors=_unset_if_none(neighbors),
            min_score=_unset_if_none(min_score),
            refuse_sensitive=_unset_if_none(refuse_sensitive),
            if_match=etag,
        )
    _print_knowledge_base(changed, output)


@app.command(epilog=examples("kb kb delete handbook --yes"))
def delete(
    context: typer.Context,
    kb: KnowledgeBaseArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Output = "table",
) -> None:
    """Delete a knowledge base with all its passages. Its documents stay."""
    with open_client(context) as client:
        found = find_knowledge_base(client, kb)
        confirm(f"Delete {found.name!r} with {found.chunk_count:,} passages?", yes=yes)
        answer = client.knowledge_bases.delete(found.kb_id)
    print_answer(
        {"kb_id": found.kb_id, **answer.model_dump(mode="json")},
        output,
        id_field="kb_id",
        show=lambda: print(f"deleted {found.name} ({found.kb_id}); its documents stay"),
    )


@app.command(epilog=examples("kb kb stats handbook"))
def stats(context: typer.Context, kb: KnowledgeBaseArgument, *, output: OutputWithoutIds = "table") -> None:
    """Show size, charges and search indexes."""
    with open_client(context) as client:
        found = find_knowledge_base(client, kb)
        counted = client.knowledge_bases.get_stats(found.kb_id)
    print_answer(counted, output, show=lambda: _print_stats(counted))


@app.command(epilog=examples("kb kb pause handbook policies"))
def pause(context: typer.Context, kbs: KnowledgeBaseArguments, *, output: Output = "table") -> None:
    """Stop indexing. Searches go on, and `kb kb resume` goes on with the documents that wait."""
    carry_out_on_each(context, kbs, action="pause", output=output, id_field="kb_id")


@app.command(epilog=examples("kb kb resume handbook policies"))
def resume(context: typer.Context, kbs: KnowledgeBaseArguments, *, output: Output = "table") -> None:
    """Resume indexing."""
    carry_out_on_each(context, kbs, action="resume", output=output, id_field="kb_id")


@app.command(epilog=examples("kb kb reindex handbook policies"))
def reindex(context: typer.Context, kbs: KnowledgeBaseArguments, *, output: Output = "table") -> None:
    """Index all documents again. Passages whose text is the same cost nothing."""
    carry_out_on_each(context, kbs, action="reindex", output=output, id_field="job_id")


@app.command("rebuild-indexes", epilog=examples("kb kb rebuild-indexes handbook"))
def rebuild_indexes(context: typer.Context, kb: KnowledgeBaseArgument, *, output: Output = "table") -> None:
    """Build the search indexes again. Searches go on; no document is indexed again, and nothing is charged."""
    with open_client(context) as client:
        found = client.knowledge_bases.rebuild_search_indexes(find_knowledge_base(client, kb).kb_id)
    _print_knowledge_base(found, output)


@app.command("retry-failed", epilog=examples("kb kb retry-failed handbook policies"))
def retry_failed(context: typer.Context, kbs: KnowledgeBaseArguments, *, output: Output = "table") -> None:
    """Try the documents again that could not be indexed."""
    carry_out_on_each(context, kbs, action="retry_failed", output=output, id_field="job_id")


@app.command(epilog=examples("kb kb explain handbook handbook.travel-4f1c2a9b7d3e5a60"))
def explain(
    context: typer.Context,
    kb: KnowledgeBaseArgument,
    document: Annotated[str, typer.Argument(metavar="DOCUMENT", help="Id of the document.")],
    *,
    output: OutputWithoutIds = "table",
) -> None:
    """Explain why a document is in a knowledge base, or is not."""
    with open_client(context) as client:
        explained = client.knowledge_bases.explain_document(find_knowledge_base(client, kb).kb_id, document_id=document)
    print_answer(explained, output, show=lambda: _print_explanation(explained))


@app.command(epilog=examples("kb kb preview --tag handbook --chunk-size 400"))
def preview(
    context: typer.Context,
    kb: Annotated[
        str | None, typer.Argument(metavar="KB", help="Existing knowledge base whose settings to use.")
    ] = None,
    *,
    tag: TagOptions = None,
    document: Annotated[str | None, typer.Option("--document", help="Id of a document whose passages to show.")] = None,
    chunker: Chunker = None,
    chunk_size: ChunkSize = None,
    chunk_overlap: ChunkOverlap = None,
    model: EmbeddingModelOption = None,
    output: OutputWithoutIds = "table",
) -> None:
    """Show what settings would bring: documents, passages, cost and time. Nothing is changed or charged."""
    if kb is None and not tag and document is None:
        raise typer.BadParameter("name a knowledge base, --tag or --document")
    with open_client(context) as client:
        kb_id = find_knowledge_base(client, kb).kb_id if kb is not None else None
        found = client.knowledge_bases.preview(
            kb_id=_unset_if_none(kb_id),
            tag_ids=_unset_if_none(tag or None),
            document_id=_unset_if_none(document),
            chunker_type=cast("ChunkerName | Unset", _unset_if_none(chunker)),
            chunk_size=_unset_if_none(chunk_size),
            chunk_overlap=_unset_if_none(chunk_overlap),
            embedding_model=_unset_if_none(model),
        )
    print_answer(found, output, show=lambda: _print_preview(found))


def _print_list(found: "Sequence[KnowledgeBaseView]", *, total_count: int) -> None:
    if not found:
        print("There is no knowledge base. `kb docs push FOLDER` creates one for the files of a folder.")
        return
    print_table(
        ("name", "id", "status", "documents", "passages", "tags"),
        [(each.name, each.kb_id, _status(each), each.document_count, each.chunk_count, each.tag_ids) for each in found],
        whole=("id",),
    )
    print_more(len(found), total_count=total_count)


def _print_stats(counted: "KnowledgeBaseStats") -> None:
    print_fields(
        {
            "documents": f"{counted.document_count:,} of {counted.total_documents_with_tags:,} are indexed",
            "passages": counted.chunk_count,
            "progress": describe_progress(counted),
            "time left": None if counted.eta_s is None else describe_seconds(counted.eta_s),
            "failed": counted.states.failed,
            "last indexed": counted.last_indexed_at,
            "SPUs": counted.spus,
            "cost": f"{counted.usd:.4f} US dollars",
            "search indexes": [f"{each.name}: {each.status}" for each in counted.search_indexes],
        }
    )


def describe_progress(counted: "KnowledgeBaseStats") -> str:
    """Say how far a knowledge base is; never 100 % before it is done."""
    share = f"{math.floor(counted.progress * 100)}%"
    if counted.progress == 1:
        return share
    more = ", and more documents are arriving" if counted.more_arriving else ""
    return f"{share}, about {count_passages(counted.remaining_chunk_count)} left{more}"


def _print_explanation(explained: "ExplanationView") -> None:
    print(f"{explained.reason}\n")
    error = explained.job.error if explained.job else None
    print_fields(
        {
            "status": explained.status,
            "tags of the document": explained.document.tag_ids if explained.document else None,
            "tags of the knowledge base": explained.knowledge_base_tag_ids,
            "shared": explained.shared_tag_ids,
            "passages": explained.indexed.chunk_count if explained.indexed else 0,
            **({"error": error.message} if error else {}),
        }
    )


def _print_preview(found: "KnowledgeBasePreview") -> None:
    settings = found.settings
    fields: dict[str, Any] = {
        "chunker": f"{settings.chunker_type}, {settings.chunk_size} tokens, overlap {settings.chunk_overlap}",
        "embedding model": settings.embedding_model,
        "language": found.language.language,
        "text analyzer that fits": found.suggested_text_analyzer,
    }
    if (documents := found.documents) is not None:
        about = "" if documents.is_exact else "about "
        fields |= {
            "documents": documents.document_count,
            "passages": f"{about}{documents.chunk_count:,}",
            "SPUs": f"{about}{documents.spus:,} ({documents.cached_count:,} vectors were paid for before)",
            "cost": "unknown" if documents.usd is None else f"{about}{documents.usd:.4f} US dollars",
            "time": f"about {documents.duration_s:.0f} s",
        }
    print_fields(fields)
    if found.text is not None:
        print(f"\n{found.text.chunk_count} passages")
        print_table(
            ("#", "tokens", "characters", "text"),
            [
                (each.chunk_index, each.token_count, f"{each.start}-{each.end}", " ".join(each.content.split()))
                for each in found.text.chunks
            ],
        )
    for warning in found.warnings:
        print(f"warning: {warning}")


def _print_knowledge_base(found: "KnowledgeBaseView", output: OutputFormat) -> None:
    print_answer(found, output, id_field="kb_id", show=lambda: _print_settings(found))


def _print_settings(found: "KnowledgeBaseView") -> None:
    print_fields(
        {
            "name": found.name,
            "id": found.kb_id,
            "status": _status(found) + (f": {found.status_reason}" if found.status_reason else ""),
            "description": found.description or None,
            "tags": found.tag_ids,
            "documents": found.document_count,
            "passages": found.chunk_count,
            "chunker": f"{found.chunker_type}, {found.chunk_size} tokens, overlap {found.chunk_overlap}",
            "embedding model": f"{found.embedding_model}, {found.embedding_dimensions} dimensions",
            "text analyzer": found.text_analyzer,
            **({"credentials": "documents that contain some are refused"} if found.refuse_sensitive else {}),
            **({"search indexes": f"rebuild {found.index_rebuild}"} if found.index_rebuild else {}),
            "created": found.created_at,
            "last searched": found.last_searched_at,
        }
    )
    for warning in found.warnings:
        print(f"warning: {warning}")


def _status(found: "KnowledgeBaseView") -> str:
    return f"{found.status}, paused" if found.paused_at else found.status


def _unset_if_none(value: Any) -> Any:
    """Return an option as an argument of the client: the API leaves out what was not given."""
    return UNSET if value is None else value
