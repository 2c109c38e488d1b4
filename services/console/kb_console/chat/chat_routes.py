"""Chat: conversations, whose questions are answered with citations while somebody watches."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypeAlias

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import ApiError, KbClientError
from kb_console.addresses import OF_ORGANIZATION, own_address
from kb_console.chat.answer_places import AnswerPlace, AskedQuestion, answer_question, refuse_in_place
from kb_console.chat.chat_choice import AGENT, PROMPT, ChatChoice, choice_of_address
from kb_console.chat.conversations import ShownThread, begin_thread, read_thread, turns_of_thread
from kb_console.dependencies import Visit, Visitor
from kb_console.documents.document_choices import read_document_choices
from kb_console.pages import is_partial, render_page
from kb_console.paging import ListPage, Paging
from kb_console.problems import ShownProblem, describe_refusal
from kb_contracts.api.agents import AgentView
from kb_contracts.api.chat_models import ChatModelView
from kb_contracts.api.document_lists import DocumentSummary
from kb_contracts.api.knowledge_bases import KnowledgeBaseView
from kb_contracts.api.prompts import PromptView
from kb_contracts.api.runs import MAX_MESSAGE_CHARACTERS, RunRating
from kb_contracts.api.threads import ThreadList
from kb_shared.concurrency.concurrent_tasks import run_three_or_cancel, run_two_or_cancel

CHAT: Final = "chat"
_THREADS: Final = 20
_CHOICES: Final = 100
_FORBIDDEN: Final = 403
_NOTHING_TO_SEARCH: Final = ShownProblem(
    422, "Nothing to search", "Choose a knowledge base, an agent, a prompt or a document: the answer comes from there."
)
_NO_QUESTION: Final = ShownProblem(422, "No question", "Type a question first.")
_NOTHING_ASKED: Final = "Ask a question: the answer cites the passages that it comes from."
_NOTHING_ASKED_HERE: Final = "Nothing was asked in this conversation yet."
_Then = Annotated[str, Form(max_length=2_000)]

Older: TypeAlias = Annotated[int, Query(ge=0, le=5_000)]
"""Number of pages of conversations that are newer than those that are listed."""

AddressChoice: TypeAlias = Annotated[ChatChoice | None, Depends(choice_of_address)]

router = APIRouter(prefix=OF_ORGANIZATION)


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """Choices for an answer: knowledge bases, agents, prompts, models."""

    knowledge_bases: list[KnowledgeBaseView]
    agents: list[AgentView]
    prompts: list[PromptView]
    models: list[ChatModelView]
    documents: list[DocumentSummary]

    def names_of(self, choice: ChatChoice) -> list[str]:
        """Return the names of what was chosen, in the order of the page. What is not known has only its id."""
        names = {AGENT + agent.agent_id: agent.name for agent in self.agents}
        names |= {PROMPT + prompt.prompt_id: prompt.name for prompt in self.prompts}
        names |= {kb.kb_id: kb.name for kb in self.knowledge_bases}
        return [names.get(each, each) for each in (choice.answerer, choice.model, *choice.kb_ids) if each]


@router.get("/chat")
async def new_conversation(
    request: Request, visit: Visitor, *, choice: AddressChoice, paging: Paging, older: Older = 0
) -> HTMLResponse:
    return await _render(request, visit, None, choice=choice, paging=paging, older=older)


@router.get("/chat/{thread_id}")
async def show_conversation(
    request: Request,
    visit: Visitor,
    thread_id: str,
    *,
    choice: AddressChoice,
    paging: Paging,
    older: Older = 0,
) -> HTMLResponse:
    if is_partial(request):
        thread = await read_thread(visit, thread_id, paging)
        return render_page(request, "_turns.html", **_turns_of(visit, thread, paging))
    return await _render(request, visit, thread_id, choice=choice, paging=paging, older=older)


@router.post("/chat")
async def ask(request: Request, visit: Visitor) -> Response:
    """Ask a question in a conversation, which begins with the first one."""
    form = await request.form()
    asked = AskedQuestion.from_form(form, ChatChoice.from_form(form))
    problem = _NO_QUESTION if not asked.text else (_NOTHING_TO_SEARCH if asked.choice.is_empty else None)
    if problem is not None:
        return await _refuse(request, visit, asked, problem=problem)
    try:
        thread_id = asked.thread_id or await begin_thread(visit, asked.text)
    except KbClientError as error:
        return await _refuse(request, visit, asked, problem=describe_refusal(error))
    address = visit.address(CHAT, thread_id)
    place = AnswerPlace(
        lambda _: address,
        shown_at=visit.address(CHAT, thread_id, **asked.choice.query()),
        thread_id=thread_id,
        is_new=asked.thread_id is None,
        is_listed=True,
    )
    outcome = await answer_question(request, visit, asked, place=place)
    if isinstance(outcome, ShownProblem):
        return await _refuse(request, visit, replace(asked, thread_id=thread_id), problem=outcome)
    return outcome


@router.post("/runs/{run_id}/stop")
async def stop(visit: Visitor, run_id: str, *, then: _Then) -> Response:
    try:
        await visit.api.runs.cancel(run_id)
    except ApiError as error:
        # It has ended meanwhile.
        if error.slug != "run-ended":
            raise
    return RedirectResponse(own_address(then), 303)


@router.post("/runs/{run_id}/feedback")
async def judge(
    visit: Visitor,
    run_id: str,
    *,
    then: _Then,
    rating: Annotated[RunRating, Form()],
    comment: Annotated[str, Form(max_length=2_000)] = "",
) -> Response:
    await visit.api.runs.set_feedback(run_id, rating=rating, comment=comment)
    return RedirectResponse(f"{own_address(then)}#run-{run_id}", 303)


@router.get("/chat/{thread_id}/delete")
async def confirm_deletion(request: Request, visit: Visitor, thread_id: str) -> HTMLResponse:
    thread = await visit.api.threads.get(thread_id, limit=1)
    return render_page(request, "chat_delete.html", thread=thread)


@router.post("/chat/{thread_id}/delete")
async def delete(visit: Visitor, thread_id: str) -> Response:
    await visit.api.threads.delete(thread_id)
    return RedirectResponse(visit.address(CHAT), 303)


async def _refuse(request: Request, visit: Visit, asked: AskedQuestion, *, problem: ShownProblem) -> Response:
    part = refuse_in_place(request, problem)
    return part or await _render(
        request, visit, asked.thread_id, paging=ListPage(1), problem=problem, choice=asked.choice, question=asked.text
    )


async def _render(
    request: Request,
    visit: Visit,
    thread_id: str | None,
    *,
    paging: ListPage,
    older: int = 0,
    problem: ShownProblem | None = None,
    choice: ChatChoice | None = None,
    question: str = "",
) -> HTMLResponse:
    threads, options, thread = await run_three_or_cancel(
        visit.api.threads.list(skip=older * _THREADS, limit=_THREADS),
        _read_options(visit),
        read_thread(visit, thread_id, paging),
    )
    choice = choice or _choose(options, thread)
    return render_page(
        request,
        "chat.html",
        status_code=200 if problem is None else problem.status,
        **_turns_of(visit, thread, paging),
        threads=_with_current(threads, thread),
        older=older,
        has_older=threads.total_count > (older + 1) * _THREADS,
        options=options,
        choice=choice,
        chosen=options.names_of(choice),
        question=question,
        problem=problem,
        longest_question=MAX_MESSAGE_CHARACTERS,
    )


def _choose(options: ChatOptions, thread: ShownThread | None) -> ChatChoice:
    """Return the choice of the last question, else the only knowledge base."""
    if thread is not None and thread.last_choice is not None:
        return thread.last_choice
    if len(options.knowledge_bases) == 1:
        return ChatChoice(kb_ids=(options.knowledge_bases[0].kb_id,))
    return ChatChoice()


def _turns_of(visit: Visit, thread: ShownThread | None, paging: ListPage) -> dict[str, Any]:
    segments = [CHAT] if thread is None else [CHAT, thread.thread_id]
    when_empty = _NOTHING_ASKED if thread is None else _NOTHING_ASKED_HERE
    values = turns_of_thread(thread, paging, lambda page: visit.address(*segments, page=page))
    return values | {"when_empty": when_empty}


def _with_current(threads: ThreadList, thread: ShownThread | None) -> list[tuple[str, str]]:
    """Return id and title of the newest conversations, and of the one that is shown."""
    listed = [(each.thread_id, each.title) for each in threads.threads]
    if thread is not None and all(thread_id != thread.thread_id for thread_id, _ in listed):
        listed.append((thread.thread_id, thread.title))
    return listed


async def _read_options(visit: Visit) -> ChatOptions:
    api = visit.api
    knowledge_bases, (models, documents), (agents, prompts) = await run_three_or_cancel(
        api.knowledge_bases.list(sort="name", limit=_CHOICES),
        run_two_or_cancel(api.chat_models.list(key_present=True, limit=_CHOICES), read_document_choices(visit)),
        _read_answerers(visit),
    )
    return ChatOptions(knowledge_bases.knowledge_bases, agents, prompts, models.chat_models, documents)


async def _read_answerers(visit: Visit) -> tuple[list[AgentView], list[PromptView]]:
    """Return agents and prompts; none for a key that is limited to knowledge bases, which may not see them."""
    try:
        agents, prompts = await run_two_or_cancel(
            visit.api.agents.list(limit=_CHOICES), visit.api.prompts.list(limit=_CHOICES)
        )
    except ApiError as error:
        if error.status != _FORBIDDEN:
            raise
        return [], []
    return agents.agents, prompts.prompts
