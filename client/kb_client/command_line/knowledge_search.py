"""`kb knowledge search`: entries, as agents find them."""

from typing import TYPE_CHECKING, Annotated

import typer

from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_group import app
from kb_client.command_line.output import open_console, print_answer, visible
from kb_client.command_line.output_format import Output
from kb_client.command_line.search import BY_WORDS_ONLY

if TYPE_CHECKING:
    from kb_contracts.api.knowledge_retrieval import EntrySearchResponse


@app.command(epilog=examples('kb knowledge search "hotel in London"', "kb knowledge search hotel --type rule --top 3"))
def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Question, or words to find.")],
    *,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Only entries of this type, or from sources of this kind, such as url_crawl. May be repeated.",
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, max=100, help="Number of passages.")] = 5,
    output: Output = "table",
) -> None:
    """Search entries by meaning and by words, as agents do."""
    with open_client(context) as client:
        found = client.knowledge.search(query, limit=top, types=types)
    print_answer(found, output, rows="hits", id_field="entry_id", show=lambda: _print_hits(found))


def _print_hits(found: "EntrySearchResponse") -> None:
    console = open_console()
    if not found.hits:
        print("Nothing was found. `kb knowledge add` adds an entry.")
    if found.degraded:
        print(BY_WORDS_ONLY)
    for number, hit in enumerate(found.hits, start=1):
        print(f"{number}. {visible(hit.entry_title)}  ({hit.entry_id}, {hit.strength})")
        console.print(f"   {visible(hit.content)}", soft_wrap=not console.is_terminal)
        print()
