"""Chat: conversations, whose questions are answered with citations while somebody watches."""

from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_client.errors import ApiError, KbClientError
from kb_console.addresses import OF_ORGANIZATION, own_address
from kb_console.chat.answer_places import AnswerPlace, AskedQuestion, answer_question, refuse_in_place
from kb_console.chat.chat_choice import ChatChoice
from kb_console.chat.chat_options import read_names, read_options
from kb_console.chat.chat_view import AddressChoice, ChatView, View, read_conversation
from kb_console.chat.conversations import ShownThread, begin_thread, read_thread, turns_of_thread
from kb_console.dependencies import Visit, Visitor
from kb_console.documents.document_choices import find_document_id
from kb_console.errors import UnusableForm
from kb_console.pages import is_partial, render_page
from kb_console.paging import ListPage
from kb_console.problems import ShownProblem, describe_refusal
from kb_contracts.api.runs import MAX_KNOWLEDGE_BASES, MAX_MESSAGE_CHARACTERS, RunRating
from kb_contracts.api.threads import ThreadList
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

CHAT: Final = "chat"
_THREADS: Final = 20
_NOTHING_TO_SEARCH: Final = ShownProblem(
    422, "Nothing to search", "There is no knowledge base yet. Create one and upload documents: answers come from them."
)
_NO_QUESTION: Final = ShownProblem(422, "No question", "Type a question first.")
_NOTHING_ASKED: Final = "Ask a question: the answer cites the passages that it comes from."
_NOTHING_ASKED_HERE: Final = "Nothing was asked in this conversation yet."
_Then = Annotated[str, Form(max_length=2_000)]

router = APIRouter(prefix=OF_ORGANIZATION)


@router.get("/chat")
async def new_conversation(request: Request, visit: Visitor, *, view: View) -> HTMLResponse:
    return await _render(request, visit, None, view=view)


@router.get("/chat/choices")
async def show_choices(request: Request, visit: Visitor, *, choice: AddressChoice) -> HTMLResponse:
    """Choices for the next answer, for the page that shows only what is chosen."""
    choice = choice or ChatChoice()
    options, names = await run_two_or_cancel(read_options(visit), read_names(visit, choice))
    document_name = names.get(choice.document_id, "")
    return render_page(request, "_chat_choices.html", options=options, choice=choice, document_name=document_name)


@router.get("/chat/{thread_id}")
async def show_conversation(request: Request, visit: Visitor, thread_id: str, *, view: View) -> HTMLResponse:
    if is_partial(request):
        thread = await read_thread(visit, thread_id, view.paging)
        return render_page(request, "_turns.html", **_turns_of(visit, thread, view.paging))
    return await _render(request, visit, thread_id, view=view)


@router.post("/chat")
async def ask(request: Request, visit: Visitor) -> Response:
    """Ask a question in a conversation, which begins with the first one."""
    form = await request.form()
    asked = AskedQuestion.from_form(form, ChatChoice.from_form(form))
    if not asked.text:
        return await _refuse(request, visit, asked, problem=_NO_QUESTION)
    try:
        complete = await _complete(visit, asked.choice)
        if complete.searches_all:
            return await _refuse(request, visit, asked, problem=_NOTHING_TO_SEARCH)
        thread_id = asked.thread_id or await begin_thread(visit, asked.text)
    except (KbClientError, UnusableForm) as error:
        return await _refuse(request, visit, asked, problem=describe_refusal(error))
    address = visit.address(CHAT, thread_id)
    place = AnswerPlace(
        lambda _: address,
        shown_at=visit.address(CHAT, thread_id, **asked.choice.query()),
        thread_id=thread_id,
        is_new=asked.thread_id is None,
        is_listed=True,
    )
    outcome = await answer_question(request, visit, replace(asked, choice=complete), place=place)
    if isinstance(outcome, ShownProblem):
        return await _refuse(request, visit, replace(asked, thread_id=thread_id), problem=outcome)
    return outcome


async def _complete(visit: Visit, choice: ChatChoice) -> ChatChoice:
    """Return the choice with ids of what it names; nothing to search means all knowledge bases.

    Raises:
        UnusableForm: the name of the document is not unique, or there are more knowledge bases than can be searched.
    """
    if not choice.searches_all:
        document_id = await find_document_id(visit, choice.document_id, field="document")
        return replace(choice, document_id=document_id)
    found = await visit.api.knowledge_bases.list(sort="name", limit=MAX_KNOWLEDGE_BASES)
    if found.total_count > MAX_KNOWLEDGE_BASES:
        count = f"There are {found.total_count} knowledge bases, and an answer can search {MAX_KNOWLEDGE_BASES}"
        raise UnusableForm({"knowledge bases": f"{count}: choose some"})
    return replace(choice, kb_ids=tuple(kb.kb_id for kb in found.knowledge_bases))


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
    view = ChatView(ListPage(1), choice=asked.choice)
    return part or await _render(request, visit, asked.thread_id, view=view, problem=problem, question=asked.text)


async def _render(
    request: Request,
    visit: Visit,
    thread_id: str | None,
    *,
    view: ChatView,
    problem: ShownProblem | None = None,
    question: str = "",
) -> HTMLResponse:
    threads, shown = await run_two_or_cancel(
        visit.api.threads.list(skip=view.older * _THREADS, limit=_THREADS), read_conversation(visit, thread_id, view)
    )
    return render_page(
        request,
        "chat.html",
        status_code=200 if problem is None else problem.status,
        **_turns_of(visit, shown.thread, view.paging),
        threads=_with_current(threads, shown.thread),
        older=view.older,
        has_older=threads.total_count > (view.older + 1) * _THREADS,
        options=shown.options,
        choice=shown.choice,
        chosen=shown.chosen,
        document_name=shown.document_name,
        is_unfolded=view.choose,
        question=question,
        problem=problem,
        longest_question=MAX_MESSAGE_CHARACTERS,
    )


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
