"""`kb ask` and `kb chat`: answers of a chat model, with the passages that they cite."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kb_client.command_line.connection import open_client
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.output import AsJson, print_json
from kb_client.command_line.search import KbOptions
from kb_client.command_line.unusable_request import UnusableRequest
from kb_client.unset import UNSET

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.run_events import RunEvent
    from kb_contracts.api.runs import RunView

MAX_KNOWLEDGE_BASES: Final = 20
MAX_MESSAGES: Final = 50

ChatModelOption = Annotated[
    str | None,
    typer.Option("--model", envvar="KB_ASK_MODEL", help="Chat model. Default: that of the server."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to `kb`."""
    app.command(epilog='Example: kb ask "Who locks a lost phone?" --kb handbook')(ask)
    app.command(epilog="Example: kb chat --kb handbook")(chat)


def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Question to answer.")],
    *,
    kb: KbOptions = None,
    model: ChatModelOption = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question from the documents. Each statement names the passage that it comes from."""
    with open_client(context) as client:
        kb_ids = _choose(client, kb)
        messages = [{"role": "user", "content": question}]
        if as_json:
            finished = _run(client, messages, kb_ids=kb_ids, model=model, on_event=lambda _: None)
            print_json(finished)
        else:
            finished = _answer(client, messages, kb_ids=kb_ids, model=model)
    if finished.status != "completed":
        raise UnusableRequest(_describe_failure(finished))


def chat(context: typer.Context, *, kb: KbOptions = None, model: ChatModelOption = None) -> None:
    """Talk about the documents: each question knows the ones before. An empty line or Ctrl-D ends it."""
    with open_client(context) as client:
        kb_ids = _choose(client, kb)
        if sys.stdin.isatty():
            print("Ask about your documents. An empty line ends the conversation.\n")
        messages: list[dict[str, str]] = []
        while question := _read_question():
            messages = [*messages[-(MAX_MESSAGES - 2) :], {"role": "user", "content": question}]
            finished = _answer(client, messages, kb_ids=kb_ids, model=model)
            if finished.answer is None or finished.status != "completed":
                print(f"error: {_describe_failure(finished)}", file=sys.stderr)
                messages.pop()
            else:
                messages.append({"role": "assistant", "content": finished.answer})
            print()


def _read_question() -> str:
    try:
        return input("> " if sys.stdin.isatty() else "").strip()
    except EOFError:
        return ""


def _choose(client: "Client", named: Sequence[str] | None) -> list[str]:
    """Return the ids of the named knowledge bases; without names, of all.

    Raises:
        UnusableRequest: there is none, or there are more than one run can search.
    """
    if named:
        return [find_knowledge_base(client, each).kb_id for each in named]
    page = client.knowledge_bases.list(limit=MAX_KNOWLEDGE_BASES)
    if not page.knowledge_bases:
        raise UnusableRequest("there is no knowledge base to ask. `kb docs push FOLDER` creates one from your files")
    if page.total_count > MAX_KNOWLEDGE_BASES:
        raise UnusableRequest(
            f"there are {page.total_count} knowledge bases, and an answer can search {MAX_KNOWLEDGE_BASES}: name"
            " some with --kb (`kb kb list` shows them)"
        )
    return [each.kb_id for each in page.knowledge_bases]


def _answer(
    client: "Client", messages: Sequence[dict[str, str]], *, kb_ids: Sequence[str], model: str | None
) -> "RunView":
    """Run the model, print its answer while it writes, then the citations, and return the outcome."""
    from kb_client.command_line.answer_display import AnswerDisplay, print_footnotes

    with AnswerDisplay() as display:
        finished = _run(client, messages, kb_ids=kb_ids, model=model, on_event=display.show)
    print_footnotes(finished.citations)
    return finished


def _run(
    client: "Client",
    messages: Sequence[dict[str, str]],
    *,
    kb_ids: Sequence[str],
    model: str | None,
    on_event: Callable[["RunEvent"], None],
) -> "RunView":
    with client.runs.stream(messages=messages, kb_ids=kb_ids, model=model or UNSET) as events:
        for event in events:
            on_event(event)
    if events.finished is None:
        raise UnusableRequest("the run ended without an outcome; ask again")
    return events.finished


def _describe_failure(finished: "RunView") -> str:
    detail = (finished.error or {}).get("detail") or "the model gave no answer"
    run = f" (run {finished.run_id})" if finished.run_id else ""
    return f"{detail}{run}"
