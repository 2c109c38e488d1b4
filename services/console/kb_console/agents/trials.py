"""Trials: questions to an agent or a prompt beside its form, with their answers."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Query, Request
from fastapi.responses import Response
from starlette.datastructures import FormData

from kb_client.errors import KbClientError
from kb_console.chat.answer_places import AnswerPlace, AskedQuestion, answer_question, refuse_in_place
from kb_console.chat.chat_choice import AGENT, PROMPT, ChatChoice
from kb_console.chat.conversations import begin_thread, read_thread, turns_of_thread, turns_values
from kb_console.chat.turns import to_turn
from kb_console.dependencies import Visit
from kb_console.documents.document_choices import find_document_id, find_document_name
from kb_console.errors import UnusableForm
from kb_console.paging import ListPage
from kb_console.problems import ShownProblem, describe_refusal
from kb_contracts.api.runs import MAX_MESSAGE_CHARACTERS

AGENTS: Final = "agents"
PROMPTS: Final = "prompts"
NO_QUESTION: Final = ShownProblem(422, "No question", "Type a question first.")
_NEWEST: Final = ListPage(1)
_NO_ANSWER: Final = "The answer appears here, with its searches and what it cites."

Tried: TypeAlias = Annotated[str, Query(max_length=100)]
"""Id of the conversation or run that a page shows beside the form, or empty."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial: the conversation or run that a page shows beside its form."""

    tried: str = ""
    """Id of the conversation of an agent, or of the run of a prompt; empty: nothing was asked yet."""
    paging: ListPage = _NEWEST
    """Page of the questions of a conversation."""
    refused: AskedQuestion | None = None
    problem: ShownProblem | None = None
    """Why `refused` has no answer."""


NOTHING_TRIED: Final = Trial()


async def ask_agent(request: Request, visit: Visit, agent_id: str) -> Response | Trial:
    """Ask the question of a form in the conversation of a trial; return the trial if there is no answer."""
    asked = AskedQuestion.from_form(await request.form(), ChatChoice(AGENT + agent_id))
    if not asked.text:
        return _refuse(request, Trial(asked.thread_id or "", refused=asked, problem=NO_QUESTION))
    try:
        thread_id = asked.thread_id or await begin_thread(visit, asked.text)
    except KbClientError as error:
        return _refuse(request, Trial(refused=asked, problem=describe_refusal(error)))
    address = visit.address(AGENTS, agent_id, thread=thread_id)
    place = AnswerPlace(lambda _: address, thread_id=thread_id, is_new=asked.thread_id is None)
    outcome = await answer_question(request, visit, asked, place=place)
    if isinstance(outcome, ShownProblem):
        return _refuse(request, Trial(thread_id, refused=asked, problem=outcome))
    return outcome


async def ask_prompt(request: Request, visit: Visit, prompt_id: str) -> Response | Trial:
    """Run a prompt, with a question or without, in place of what was tried before."""
    form = await request.form()
    choice = ChatChoice(PROMPT + prompt_id, document_id=_document_of(form))
    asked = AskedQuestion.from_form(form, choice)
    try:
        document_id = await find_document_id(visit, choice.document_id, field="document")
    except (KbClientError, UnusableForm) as error:
        return _refuse(request, Trial(refused=asked, problem=describe_refusal(error)))
    asked = replace(asked, choice=replace(choice, document_id=document_id))
    place = AnswerPlace(lambda run_id: visit.address(PROMPTS, prompt_id, run=run_id))
    outcome = await answer_question(request, visit, asked, place=place)
    if isinstance(outcome, ShownProblem):
        return _refuse(request, Trial(refused=asked, problem=outcome))
    return outcome


async def read_trial_of_agent(visit: Visit, agent_id: str, trial: Trial) -> dict[str, Any]:
    """Return what the trial of an agent is rendered with."""

    def address_of_page(page: int | None) -> str:
        return visit.address(AGENTS, agent_id, thread=trial.tried, page=page)

    thread = await read_thread(visit, trial.tried, trial.paging)
    return turns_of_thread(thread, trial.paging, address_of_page) | _form_values(trial)


async def read_trial_of_prompt(visit: Visit, prompt_id: str, trial: Trial) -> dict[str, Any]:
    """Return what the trial of a prompt is rendered with. Its form keeps the question, to be asked again."""
    values = _form_values(trial)
    turns = []
    if trial.tried:
        run = await visit.api.runs.get(trial.tried)
        turns = [to_turn(run, visit.session.organization_id)]
        document = await find_document_name(visit, run.document_id) if run.document_id else ""
        values |= {"question": turns[0].question, "document_id": document}
    address = visit.address(PROMPTS, prompt_id, run=trial.tried)
    return turns_values(turns, trial.paging, lambda _: address) | {"thread_id": None} | values


def _form_values(trial: Trial) -> dict[str, Any]:
    refused = trial.refused
    return {
        "tried": trial.tried,
        "trial_problem": trial.problem,
        "question": "" if refused is None else refused.text,
        "document_id": "" if refused is None else refused.choice.document_id,
        "longest_question": MAX_MESSAGE_CHARACTERS,
        "when_empty": _NO_ANSWER,
    }


def _refuse(request: Request, trial: Trial) -> Response | Trial:
    assert trial.problem is not None
    return refuse_in_place(request, trial.problem) or trial


def _document_of(form: FormData) -> str:
    value = form.get("document")
    return value.strip() if isinstance(value, str) else ""
