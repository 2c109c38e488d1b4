"""Chat: conversations, whose questions are answered with citations while somebody watches."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.datastructures import FormData

from kb_client.errors import ApiError
from kb_console.addresses import OF_ORGANIZATION
from kb_console.chat.chat_choice import ChatChoice
from kb_console.chat.chat_stream import RUN_WITHIN_S, refusal_part, stream_turn
from kb_console.chat.turns import ChatTurn, RunProgress, to_turn
from kb_console.dependencies import Visit, Visitor
from kb_console.pages import is_partial, render_page, render_part
from kb_console.paging import ListPage, Paging
from kb_console.problems import ShownProblem, describe_problem
from kb_contracts.api.agents import AgentView
from kb_contracts.api.chat_models import ChatModelView
from kb_contracts.api.knowledge_bases import KnowledgeBaseView
from kb_contracts.api.prompts import PromptView
from kb_contracts.api.runs import MAX_MESSAGE_CHARACTERS, RunRating
from kb_contracts.api.threads import ThreadList
from kb_shared.concurrency.concurrent_tasks import run_all_or_cancel, run_three_or_cancel, run_two_or_cancel

CHAT: Final = "chat"
TURNS: Final = 10
_THREADS: Final = 20
_CHOICES: Final = 100
_LONGEST_TITLE: Final = 80
_FORBIDDEN: Final = 403
_EVENT_STREAM_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_NOTHING_TO_SEARCH: Final = ShownProblem(
    422, "Nothing to search", "Choose a knowledge base, an agent, a prompt or a document: the answer comes from there."
)
_NO_QUESTION: Final = ShownProblem(422, "No question", "Type a question first.")

router = APIRouter(prefix=OF_ORGANIZATION)


@dataclass(frozen=True, slots=True)
class ShownThread:
    """A conversation with a page of its turns, oldest first."""

    thread_id: str
    title: str
    turns: list[ChatTurn]
    turn_count: int
    last_choice: ChatChoice | None


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """Choices for an answer: knowledge bases, agents, prompts, models."""

    knowledge_bases: list[KnowledgeBaseView]
    agents: list[AgentView]
    prompts: list[PromptView]
    models: list[ChatModelView]


@router.get("/chat")
async def new_conversation(request: Request, visit: Visitor, paging: Paging) -> HTMLResponse:
    return await _render(request, visit, None, paging=paging)


@router.get("/chat/{thread_id}")
async def show_conversation(
    request: Request, visit: Visitor, thread_id: str, *, paging: Paging, done: Annotated[str, Query(max_length=40)] = ""
) -> HTMLResponse:
    if is_partial(request):
        thread = await _read_thread(visit, thread_id, paging)
        return render_page(request, "_turns.html", **_turns_of(visit, thread, paging))
    return await _render(request, visit, thread_id, paging=paging, done=done)


@router.post("/chat")
async def ask(request: Request, visit: Visitor) -> Response:
    """Ask a question. A script gets the answer in events as it is written; without a script, the page follows."""
    form = await request.form()
    choice = ChatChoice.from_fields(form) or ChatChoice()
    question = _text(form, "again") or _text(form, "question")
    thread_id = _text(form, "thread_id") or None
    problem = _NO_QUESTION if not question else (_NOTHING_TO_SEARCH if choice.is_empty else None)
    if problem is not None:
        return await _refuse(request, visit, thread_id, problem=problem, choice=choice, question=question)
    is_new = thread_id is None
    if thread_id is None:
        title = " ".join(question.split())[:_LONGEST_TITLE]
        thread_id = (await visit.api.threads.create(title=title)).thread_id
    arguments = {
        **choice.run_arguments(),
        "thread_id": thread_id,
        "messages": [{"role": "user", "content": question}],
    }
    address = visit.address(CHAT, thread_id, **choice.query())
    if "hx-request" in request.headers:
        render = partial(render_part, request, thread_id=thread_id, title=question, is_new=is_new)
        progress = RunProgress(visit.session.organization_id, question)
        events = stream_turn(visit.api, progress, arguments=arguments, render=render, address=address)
        return StreamingResponse(events, media_type="text/event-stream", headers=_EVENT_STREAM_HEADERS)
    try:
        run = await visit.api.with_options(timeout_s=RUN_WITHIN_S).runs.create(**arguments)
    except ApiError as error:
        if error.status == 401:
            raise
        problem = describe_problem(error)
        return await _refuse(request, visit, thread_id, problem=problem, choice=choice, question=question)
    return RedirectResponse(f"{address}#run-{run.run_id}", 303)


@router.post("/chat/{thread_id}/runs/{run_id}/stop")
async def stop(visit: Visitor, thread_id: str, run_id: str) -> Response:
    try:
        await visit.api.runs.cancel(run_id)
    except ApiError as error:
        # It has ended meanwhile.
        if error.slug != "run-ended":
            raise
    return RedirectResponse(visit.address(CHAT, thread_id), 303)


@router.post("/chat/{thread_id}/runs/{run_id}/feedback")
async def judge(
    visit: Visitor,
    thread_id: str,
    run_id: str,
    *,
    rating: Annotated[RunRating, Form()],
    comment: Annotated[str, Form(max_length=2_000)] = "",
) -> Response:
    await visit.api.runs.set_feedback(run_id, rating=rating, comment=comment)
    return RedirectResponse(visit.address(CHAT, thread_id, done="judged") + f"#run-{run_id}", 303)


@router.get("/chat/{thread_id}/delete")
async def confirm_deletion(request: Request, visit: Visitor, thread_id: str) -> HTMLResponse:
    thread = await visit.api.threads.get(thread_id, limit=1)
    return render_page(request, "chat_delete.html", thread=thread)


@router.post("/chat/{thread_id}/delete")
async def delete(visit: Visitor, thread_id: str) -> Response:
    await visit.api.threads.delete(thread_id)
    return RedirectResponse(visit.address(CHAT), 303)


async def _refuse(
    request: Request, visit: Visit, thread_id: str | None, *, problem: ShownProblem, choice: ChatChoice, question: str
) -> Response:
    if "hx-request" in request.headers:
        return HTMLResponse(refusal_part(partial(render_part, request), problem))
    return await _render(
        request, visit, thread_id, paging=ListPage(1), problem=problem, choice=choice, question=question
    )


async def _render(
    request: Request,
    visit: Visit,
    thread_id: str | None,
    *,
    paging: ListPage,
    problem: ShownProblem | None = None,
    choice: ChatChoice | None = None,
    question: str = "",
    done: str = "",
) -> HTMLResponse:
    threads, options, thread = await run_three_or_cancel(
        visit.api.threads.list(limit=_THREADS), _read_options(visit), _read_thread(visit, thread_id, paging)
    )
    return render_page(
        request,
        "chat.html",
        status_code=200 if problem is None else problem.status,
        **_turns_of(visit, thread, paging),
        threads=_with_current(threads, thread),
        has_more_threads=threads.total_count > len(threads.threads),
        options=options,
        choice=choice or _choose(request, options, thread),
        question=question,
        problem=problem,
        done=done,
        longest_question=MAX_MESSAGE_CHARACTERS,
    )


def _choose(request: Request, options: ChatOptions, thread: ShownThread | None) -> ChatChoice:
    """Return the choice of the address, else that of the last question, else the only knowledge base."""
    if (asked := ChatChoice.from_fields(request.query_params)) is not None:
        return asked
    if thread is not None and thread.last_choice is not None:
        return thread.last_choice
    if len(options.knowledge_bases) == 1:
        return ChatChoice(kb_ids=(options.knowledge_bases[0].kb_id,))
    return ChatChoice()


def _turns_of(visit: Visit, thread: ShownThread | None, paging: ListPage) -> dict[str, Any]:
    """Return what the turns of a conversation are rendered with."""
    thread_id = None if thread is None else thread.thread_id

    def address_of_page(page: int) -> str:
        return visit.address(CHAT, *([thread_id] if thread_id else []), page=page if page > 1 else None)

    return {
        "thread": thread,
        "thread_id": thread_id,
        "paging": paging,
        "has_earlier": thread is not None and paging.page * TURNS < thread.turn_count,
        "address_of_page": address_of_page,
        "changes_by_itself": thread is not None and any(turn.is_running for turn in thread.turns),
    }


def _with_current(threads: ThreadList, thread: ShownThread | None) -> list[tuple[str, str]]:
    """Return id and title of the newest conversations, and of the one that is shown."""
    listed = [(each.thread_id, each.title) for each in threads.threads]
    if thread is not None and all(thread_id != thread.thread_id for thread_id, _ in listed):
        listed.append((thread.thread_id, thread.title))
    return listed


async def _read_thread(visit: Visit, thread_id: str | None, paging: ListPage) -> ShownThread | None:
    if thread_id is None:
        return None
    found = await visit.api.threads.get(thread_id, skip=(paging.page - 1) * TURNS, limit=TURNS)
    runs = await run_all_or_cancel(visit.api.runs.get(run.run_id) for run in found.runs)
    return ShownThread(
        thread_id,
        found.title,
        [to_turn(run, visit.session.organization_id) for run in reversed(runs)],
        found.total_count,
        ChatChoice.from_run(found.runs[0]) if found.runs else None,
    )


async def _read_options(visit: Visit) -> ChatOptions:
    api = visit.api
    knowledge_bases, models, (agents, prompts) = await run_three_or_cancel(
        api.knowledge_bases.list(sort="name", limit=_CHOICES),
        api.chat_models.list(key_present=True, limit=_CHOICES),
        _read_answerers(visit),
    )
    return ChatOptions(knowledge_bases.knowledge_bases, agents, prompts, models.chat_models)


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


def _text(form: FormData, name: str) -> str:
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""
