"""`kb prompts`: questions and instructions that are run again and again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kb_client.command_line.ask import Question, RunModelOption, answer_once
from kb_client.command_line.command_group import command_group
from kb_client.command_line.confirmation import confirm
from kb_client.command_line.connection import open_client
from kb_client.command_line.definitions import (
    AutoSearchOption,
    StoredModelOption,
    edit_text,
    read_definition,
    read_text,
)
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.lists import USUAL_ROWS, RowLimit, read_items
from kb_client.command_line.named_resources import find_named
from kb_client.command_line.output import print_answer, print_fields, print_more
from kb_client.command_line.output_format import Output, OutputFormat, TableOrJson
from kb_client.command_line.tables import print_table
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.prompts import PromptView

app = command_group("prompts", about="Create and change prompts, which are run again and again.")

_FIELDS: Final = ("name", "content", "model", "schema", "kb_id", "kb_ids", "auto_search", "injection")
_OF_SERVER: Final = ("prompt_id", "created_at", "updated_at", "created_by", "updated_by")

PromptArgument = Annotated[str, typer.Argument(metavar="PROMPT", help="Name or id of the prompt.")]
PromptFileOption = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE", help="JSON as `kb prompts show --json` prints it; - for standard input."),
]
ContentOption = Annotated[str | None, typer.Option("--content", metavar="TEXT", help="Instructions and question.")]
ContentFileOption = Annotated[
    Path | None, typer.Option("--content-file", metavar="FILE", help="File with the content; - for standard input.")
]
SchemaFileOption = Annotated[
    Path | None, typer.Option("--schema-file", metavar="FILE", help="JSON schema that answers have to follow.")
]
SearchedKbsOption = Annotated[
    list[str] | None, typer.Option("--kb", metavar="KB", help="Knowledge base to search. May be repeated.")
]


@app.command("list", epilog=examples("kb prompts list"))
def list_all(context: typer.Context, *, limit: RowLimit = USUAL_ROWS, output: Output = "table") -> None:
    """List prompts."""
    with open_client(context) as client:
        found = read_items(client.prompts.list, limit=limit)
    print_answer(
        found.to_json("prompts"),
        output,
        rows="prompts",
        id_field="prompt_id",
        show=lambda: _print_list(found.items, total_count=found.total_count),
    )


@app.command(epilog=examples('kb prompts show "Hotel costs"', 'kb prompts show "Hotel costs" --json > prompt.json'))
def show(context: typer.Context, prompt: PromptArgument, *, output: Output = "table") -> None:
    """Show a prompt with its whole content."""
    with open_client(context) as client:
        found = _find(client, prompt)
    _print_prompt(found, output)


@app.command(
    epilog=examples(
        'kb prompts create "Hotel costs" --content "What may a hotel in London cost?" --kb handbook',
        "kb prompts create --file prompt.json",
    )
)
def create(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name; may be in the file instead.")] = None,
    *,
    file: PromptFileOption = None,
    content: ContentOption = None,
    content_file: ContentFileOption = None,
    model: StoredModelOption = None,
    schema_file: SchemaFileOption = None,
    kb: SearchedKbsOption = None,
    auto_search: AutoSearchOption = None,
    output: Output = "table",
) -> None:
    """Create a prompt from options, a file, or a file and options, which then count more."""
    with open_client(context) as client:
        given = read_definition(file, fields=_FIELDS, ignored=_OF_SERVER) | _collect_fields(
            client,
            name=name,
            content=content,
            content_file=content_file,
            model=model,
            schema_file=schema_file,
            kb=kb,
            auto_search=auto_search,
        )
        if not given.get("name") or not given.get("content"):
            raise typer.BadParameter("a prompt needs a name, and --content or --content-file")
        created = client.prompts.create(**_arguments(given))
    _print_prompt(created, output)


@app.command(
    epilog=examples('kb prompts edit "Hotel costs"', 'kb prompts edit "Hotel costs" --kb handbook --kb travel')
)
def edit(
    context: typer.Context,
    prompt: PromptArgument,
    *,
    name: Annotated[str | None, typer.Option("--name", help="New name.")] = None,
    file: PromptFileOption = None,
    content: ContentOption = None,
    content_file: ContentFileOption = None,
    model: StoredModelOption = None,
    schema_file: SchemaFileOption = None,
    no_schema: Annotated[bool, typer.Option("--no-schema", help="Let answers be text.")] = False,
    kb: SearchedKbsOption = None,
    auto_search: AutoSearchOption = None,
    output: Output = "table",
) -> None:
    """Change a prompt. What is not named stays as it is; without options, an editor opens with the content.

    A change that somebody else makes while the editor is open is not overwritten.
    """
    with open_client(context) as client:
        found = client.prompts.get.with_raw_response(_find(client, prompt).prompt_id)
        given = read_definition(file, fields=_FIELDS, ignored=_OF_SERVER) | _collect_fields(
            client,
            name=name,
            content=content,
            content_file=content_file,
            model=model,
            schema_file=schema_file,
            kb=kb,
            auto_search=auto_search,
        )
        if no_schema:
            given["schema"] = None
        if not given:
            given = {"content": edit_text(found.parsed.content)}
        changed = client.prompts.update(found.parsed.prompt_id, **_arguments(given), if_match=found.etag)
    _print_prompt(changed, output)


@app.command(epilog=examples('kb prompts run "Hotel costs"'))
def run(
    context: typer.Context,
    prompt: PromptArgument,
    *,
    kb: Annotated[
        list[str] | None,
        typer.Option("--kb", metavar="KB", help="Knowledge base to search instead of its own. May be repeated."),
    ] = None,
    document: Annotated[
        str | None, typer.Option("--document", metavar="DOCUMENT", help="Id of a document that the question is about.")
    ] = None,
    model: RunModelOption = None,
    output: TableOrJson = "table",
) -> None:
    """Run a prompt and print its answer with the passages that it cites."""
    with open_client(context, shows_waits=False) as client:
        question = Question(
            prompt_id=_find(client, prompt).prompt_id,
            kb_ids=[find_knowledge_base(client, each).kb_id for each in kb or []],
            document_id=document,
            model=model,
        )
        answer_once(client, question, output)


@app.command(epilog=examples('kb prompts delete "Hotel costs" --yes'))
def delete(
    context: typer.Context,
    prompt: PromptArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Output = "table",
) -> None:
    """Delete a prompt. Its runs stay."""
    with open_client(context) as client:
        found = _find(client, prompt)
        confirm(f"Delete the prompt {found.name!r}?", yes=yes)
        answer = client.prompts.delete(found.prompt_id)
    print_answer(
        {"prompt_id": found.prompt_id, **answer.model_dump()},
        output,
        id_field="prompt_id",
        show=lambda: print(f"deleted {found.name} ({found.prompt_id})"),
    )


def _find(client: "Client", prompt: str) -> "PromptView":
    return find_named(client.prompts.list.iterate(), prompt, id_field="prompt_id", kind="prompt")


def _collect_fields(
    client: "Client",
    *,
    name: str | None,
    content: str | None,
    content_file: Path | None,
    model: str | None,
    schema_file: Path | None,
    kb: Sequence[str] | None,
    auto_search: bool | None,
) -> dict[str, Any]:
    """Return the fields of the API that the options set."""
    if content is not None and content_file is not None:
        raise typer.BadParameter("pass --content or --content-file, not both")
    fields: dict[str, Any] = {
        "name": name,
        "content": content if content_file is None else read_text(content_file),
        "model": model,
        "schema": _read_schema(schema_file),
        "auto_search": auto_search,
    }
    if kb:
        fields["kb_ids"] = [find_knowledge_base(client, each).kb_id for each in kb]
    return {field: value for field, value in fields.items() if value is not None}


def _read_schema(path: Path | None) -> Any:
    if path is None:
        return None
    try:
        return json.loads(read_text(path))
    except ValueError as error:
        raise typer.BadParameter(f"{path} is not JSON: {error}") from None


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Return fields of the API as arguments of the client."""
    arguments = {name: value for name, value in given.items() if name not in ("schema", "kb_id")}
    arguments["answer_schema"] = given.get("schema", UNSET)
    if not arguments.get("kb_ids"):
        # A shown prompt has both; the API takes one of them.
        arguments["kb_id"] = given.get("kb_id") or UNSET
    return arguments


def _print_list(found: "Sequence[PromptView]", *, total_count: int) -> None:
    if not found:
        print("There is no prompt. `kb prompts create` creates one.")
        return
    print_table(
        ("name", "id", "model", "knowledge bases", "changed"),
        [(each.name, each.prompt_id, each.model, len(each.kb_ids), each.updated_at) for each in found],
        whole=("id",),
    )
    print_more(len(found), total_count=total_count)


def _print_prompt(found: "PromptView", output: OutputFormat) -> None:
    print_answer(found, output, id_field="prompt_id", show=lambda: _print_settings(found))


def _print_settings(found: "PromptView") -> None:
    print_fields(
        {
            "name": found.name,
            "id": found.prompt_id,
            "model": found.model,
            "knowledge bases": found.kb_ids,
            "answers": "text" if found.answer_schema is None else "JSON that follows a schema",
            "searches first": "yes" if found.auto_search else "no",
            "changed": found.updated_at,
            "content": found.content,
        }
    )
