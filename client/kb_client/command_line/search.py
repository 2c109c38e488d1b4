"""`kb search`: passages, with the words of the query set off."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from kb_client.command_line.connection import open_client
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.output import open_console, print_answer, visible
from kb_client.command_line.output_format import Output
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from rich.text import Text

    from kb_contracts.api.search import PassageCopy, SearchResult, SearchSeveralResponse

_INDENT: Final = "   "
BY_WORDS_ONLY: Final = "By words only: the embedding model did not answer in time, so matches by meaning are missing."

KbOptions = Annotated[
    list[str] | None,
    typer.Option("--kb", metavar="KB", help="Name or id of a knowledge base; may be repeated. Default: all."),
]


def register(app: typer.Typer) -> None:
    """Add the command to `kb`."""
    app.command(epilog=examples('kb search "hotel in London" --kb handbook --top 3'))(search)


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Question, or words to find.")],
    *,
    kb: KbOptions = None,
    top: Annotated[int, typer.Option("--top", min=1, max=20, help="Number of passages.")] = 5,
    mode: Annotated[
        Literal["hybrid", "vector", "text"],
        typer.Option("--mode", help="By meaning (vector), by words (text), or both."),
    ] = "hybrid",
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Documents with one of these tags.")
    ] = None,
    output: Output = "table",
) -> None:
    """Search knowledge bases by meaning and by words."""
    with open_client(context) as client:
        kb_ids = [find_knowledge_base(client, each).kb_id for each in kb or []]
        found = client.knowledge_bases.search_several(
            query,
            kb_ids=kb_ids or UNSET,
            top_k=top,
            mode=mode,
            tag_ids=tag or UNSET,
        )
    print_answer(found, output, rows="results", id_field="chunk_id", show=lambda: _print_results(found))


def _print_results(found: "SearchSeveralResponse") -> None:
    names = {each.kb_id: each.name for each in found.knowledge_bases}
    for failure in found.failures:
        print(f"not searched: knowledge base {failure.kb_id}: {failure.detail}")
    if found.degraded:
        print(BY_WORDS_ONLY)
    if not found.results:
        print(_describe_nothing([each.kb_status for each in found.knowledge_bases]))
    console = open_console()
    for number, result in enumerate(found.results, start=1):
        console.print(_heading(number, result, kb=names.get(result.kb_id) if len(names) > 1 else None), soft_wrap=True)
        console.print(_passage(result), soft_wrap=not console.is_terminal)
        console.print(f"{_INDENT}{describe_ids(result)}", style="dim", soft_wrap=True)
        console.print()


def _describe_nothing(statuses: list[str]) -> str:
    if not statuses:
        return "There is no knowledge base yet. `kb docs push FOLDER` creates one."
    if "indexing" in statuses:
        return "Nothing was found. Documents are still being indexed: try again in a moment."
    return (
        "Nothing was found. Try other words, or fewer of them; `kb docs list` shows what is indexed, and"
        " `--mode vector` the nearest passages, however far they are."
    )


def describe_ids(result: "SearchResult") -> str:
    """Return where the passage comes from, as other commands take it: the path of its file, and the document's id."""
    path = result.metadata.get("path")
    ids = f"document {visible(result.document_id)}, knowledge base {result.kb_id}"
    return f"{visible(path)}  {ids}" if isinstance(path, str) else ids


def _heading(number: int, result: "SearchResult", *, kb: str | None) -> "Text":
    from rich.text import Text

    heading = Text(f"{number}. ")
    heading.append(visible(result.source), style="bold")
    details = [
        *describe_place(result.source, result.heading_path, result.page_start, page_end=result.page_end),
        f"in {visible(kb)}" if kb else "",
        result.strength if result.is_matched else "beside a match",
        describe_copies(result.also_in),
    ]
    heading.append("".join(f"  {each}" for each in details if each), style="dim")
    return heading


def _passage(result: "SearchResult") -> "Text":
    """Return the text of a passage, indented, with the words of the query in bold."""
    from rich.text import Text

    marked, at = Text(_INDENT), 0
    for each in result.highlights:
        marked.append(_indented(result.content[at : each.start]))
        marked.append(_indented(result.content[each.start : each.end]), style="bold yellow")
        at = each.end
    marked.append(_indented(result.content[at:]) + (" ..." if result.truncated else ""))
    return marked


def _indented(text: str) -> str:
    return visible(text).replace("\n", f"\n{_INDENT}")


def describe_copies(also_in: "Sequence[PassageCopy]") -> str:
    """Return the names of other documents with the text of a passage, for people; nothing if there are none."""
    names = sorted({visible(each.source) for each in also_in})
    return f"also in {', '.join(names)}" if names else ""


def describe_place(
    source: str, heading_path: Sequence[str], page_start: int | None, *, page_end: int | None
) -> list[str]:
    """Return the page and the headings of a passage for people; the title of the document is not repeated."""
    headings = [visible(each) for each in heading_path if each != source]
    pages = ""
    if page_start is not None:
        pages = f"page {page_start}" if page_end in (None, page_start) else f"pages {page_start}-{page_end}"
    return [each for each in (pages, " > ".join(headings)) if each]
