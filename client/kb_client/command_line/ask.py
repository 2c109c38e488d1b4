"""`kb ask` and `kb chat`: answers of a chat model, with the passages that they cite."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kb_client.command_line.agent_names import find_agent
from kb_client.command_line.connection import open_client
from kb_client.command_line.definitions import AutoSearchOption
from kb_client.command_line.examples import examples
from kb_client.command_line.knowledge_base_names import find_knowledge_base
from kb_client.command_line.output import print_json, print_json_line
from kb_client.command_line.output_format import OutputFormat, TableOrJson
from kb_client.command_line.search import KbOptions
from kb_client.command_line.unusable_request import UnusableRequest

if TYPE_CHECKING:
    from kb_client.sync_client.client import Client
    from kb_contracts.api.run_events import RunEvent
    from kb_contracts.api.runs import RunView

MAX_KNOWLEDGE_BASES: Final = 20
MAX_MESSAGES: Final = 50
_FIRST_ANSWER: Final = 2
_ENDS: Final = ("/exit", "/quit")
_CHAT_COMMAND: Final = re.compile(r"/\w*")
_MODEL_HINT: Final = (
    "No language model is set, so these are sentences of the documents, quoted. "
    "`kb providers set --help` shows how to set one."
)
_CHAT_HELP: Final = "Each question knows the ones before. /exit or Ctrl-D ends the conversation, /help shows this."

RunModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="MODEL", envvar="KB_ASK_MODEL", help="Chat model. Default: that of the server."),
]
AgentOption = Annotated[
    str | None, typer.Option("--agent", metavar="AGENT", help="Agent that answers, with its instructions and tools.")
]

AskedEntityOption = Annotated[
    str | None,
    typer.Option(
        "--entity", metavar="ENTITY", help="Entity whose knowledge the agent puts into the prompt, such as user:alice."
    ),
]


@dataclass(frozen=True, slots=True)
class Question:
    """Messages or a stored prompt, and who answers from which documents."""

    messages: Sequence[Mapping[str, str]] = ()
    prompt_id: str | None = None
    agent_id: str | None = None
    document_id: str | None = None
    entity_id: str | None = None
    kb_ids: Sequence[str] = ()
    model: str | None = None
    auto_search: bool | None = None

    def to_arguments(self) -> dict[str, Any]:
        """Return the arguments of a run that are given."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value or value is False}


def register(app: typer.Typer) -> None:
    """Add the commands to `kb`."""
    app.command(
        epilog=examples(
            'kb ask "Who locks a lost phone?" --kb handbook',
            'kb ask "Who locks it?" --agent Support',
            'kb ask "Who locks it?" --auto-search',
        )
    )(ask)
    app.command(epilog=examples("kb chat --kb handbook", "kb chat --agent Support"))(chat)


def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Question to answer.")],
    *,
    kb: KbOptions = None,
    agent: AgentOption = None,
    entity: AskedEntityOption = None,
    model: RunModelOption = None,
    auto_search: AutoSearchOption = None,
    output: TableOrJson = "table",
) -> None:
    """Answer a question from the documents, with the passages that the answer cites.

    It says so if the answer cites none, or cited what was not found.
    """
    with open_client(context, shows_waits=False) as client:
        asked = _choose(client, kb=kb, agent=agent, model=model)
        asked = replace(asked, entity_id=entity, auto_search=auto_search)
        answer_once(client, replace(asked, messages=[{"role": "user", "content": question}]), output)


def answer_once(client: "Client", question: Question, output: OutputFormat) -> None:
    """Answer a question and print the answer.

    Raises:
        UnusableRequest: the run failed.
    """
    finished = _answer(client, question, output)
    if output == "json":
        print_json(finished)
    else:
        print_model_hint(finished)
    if finished.status != "completed":
        raise UnusableRequest(_describe_failure(finished))


def chat(
    context: typer.Context,
    *,
    kb: KbOptions = None,
    agent: AgentOption = None,
    entity: AskedEntityOption = None,
    model: RunModelOption = None,
    auto_search: AutoSearchOption = None,
    output: TableOrJson = "table",
) -> None:
    """Talk about the documents: each question knows the ones before. `/exit` or Ctrl-D ends it, `/help` explains it.

    Questions are lines of the standard input; empty lines are ignored. As JSON, each answer is one line.
    """
    with open_client(context, shows_waits=False) as client:
        asked = _choose(client, kb=kb, agent=agent, model=model)
        asked = replace(asked, entity_id=entity, auto_search=auto_search)
        if sys.stdin.isatty() and output == "table":
            print(f"Ask about your documents. {_CHAT_HELP}\n")
        messages: list[dict[str, str]] = []
        for question in _read_questions():
            messages = [*messages[-(MAX_MESSAGES - 2) :], {"role": "user", "content": question}]
            finished = _answer(client, replace(asked, messages=messages), output)
            if output == "json":
                print_json_line(finished)
            if finished.answer is None or finished.status != "completed":
                print(f"error: {_describe_failure(finished)}", file=sys.stderr)
                messages.pop()
            else:
                messages.append({"role": "assistant", "content": finished.answer})
            if output == "table":
                if len(messages) == _FIRST_ANSWER:
                    print_model_hint(finished)
                print()


def _read_questions() -> Iterator[str]:
    """Yield the questions of the standard input until it ends or a line says so; obey the lines that are commands."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            line = input(prompt).strip()
        except EOFError:
            return
        if line in _ENDS:
            return
        if _CHAT_COMMAND.fullmatch(line):
            print(_CHAT_HELP if line == "/help" else f"There is no {line}. {_CHAT_HELP}", file=sys.stderr)
        elif line:
            yield line


def _choose(client: "Client", *, kb: Sequence[str] | None, agent: str | None, model: str | None) -> Question:
    """Return who answers, from which knowledge bases.

    Raises:
        UnusableRequest: there is no such agent or knowledge base.
    """
    if agent is None:
        return Question(kb_ids=_choose_knowledge_bases(client, kb), model=model)
    if kb:
        raise typer.BadParameter("an agent searches its tools: pass --agent or --kb, not both")
    return Question(agent_id=find_agent(client, agent).agent_id, model=model)


def _choose_knowledge_bases(client: "Client", named: Sequence[str] | None) -> list[str]:
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


def _answer(client: "Client", question: Question, output: OutputFormat) -> "RunView":
    """Run the model and return the outcome; for people, print its answer while it writes, then the citations."""
    if output == "json":
        return _run(client, question, on_event=lambda _: None)
    from kb_client.command_line.answer_display import AnswerDisplay, print_footnotes, print_grounds

    with AnswerDisplay() as display:
        finished = _run(client, question, on_event=display.show)
    print_footnotes(finished.citations, finished.answer or "")
    if finished.status == "completed":
        print_grounds(finished)
    return finished


def print_model_hint(run: "RunView") -> None:
    """Say how to set a language model, if none answered."""
    from kb_client.command_line.output import open_console
    from kb_contracts.api.chat_models import DEMO_MODEL

    if run.model == DEMO_MODEL:
        open_console().print(f"\n{_MODEL_HINT}", style="dim", soft_wrap=True)


def _run(client: "Client", question: Question, *, on_event: Callable[["RunEvent"], None]) -> "RunView":
    with client.runs.stream(**question.to_arguments()) as events:
        for event in events:
            on_event(event)
    if events.finished is None:
        raise UnusableRequest("the run ended without an outcome; ask again")
    return events.finished


def _describe_failure(finished: "RunView") -> str:
    detail = (finished.error or {}).get("detail") or "the model gave no answer"
    run = f" (run {finished.run_id})" if finished.run_id else ""
    return f"{detail}{run}"
