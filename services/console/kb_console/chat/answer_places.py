"""Answers questions in a part of a page: a conversation, or the trial beside a form."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.datastructures import FormData

from kb_client.errors import KbClientError
from kb_console.chat.chat_choice import ChatChoice
from kb_console.chat.chat_stream import RUN_WITHIN_S, refusal_part, stream_turn
from kb_console.chat.turns import RunProgress
from kb_console.dependencies import Visit
from kb_console.pages import render_part
from kb_console.problems import ShownProblem, describe_refusal

_EVENT_STREAM_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question as a form sends it."""

    text: str
    choice: ChatChoice
    thread_id: str | None = None
    """Conversation that it continues."""

    @classmethod
    def from_form(cls, form: FormData, choice: ChatChoice) -> "AskedQuestion":
        return cls(_text(form, "again") or _text(form, "question"), choice, _text(form, "thread_id") or None)


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """The part of a page that shows answers."""

    address_of: Callable[[str], str]
    """Returns the address that shows the answer of a run again."""
    shown_at: str | None = None
    """Address of the page from now on, if it is not that of the answer: it also says who answers next."""
    thread_id: str | None = None
    """Conversation of the answers; None: each stands for itself, in place of the one before."""
    is_new: bool = False
    """True if the conversation begins with the question."""
    is_listed: bool = False
    """True if the page lists conversations, and so the one that begins."""

    def address_after(self, run_id: str) -> str:
        """Return the address that the browser shows from the beginning of a run."""
        return self.shown_at or self.address_of(run_id)

    def values(self) -> Mapping[str, Any]:
        """Return what parts of the page are rendered with."""
        return {
            "address_of_turn": self.address_of,
            "thread_id": self.thread_id,
            "is_new": self.is_new,
            "is_listed": self.is_listed,
        }


async def answer_question(
    request: Request, visit: Visit, asked: AskedQuestion, *, place: AnswerPlace
) -> Response | ShownProblem:
    """Run what was chosen. A script gets the answer in events as it is written; otherwise its page follows.

    Returns:
        The response, or why there is no answer, which the page with the form has to say.
    """
    arguments = {
        **asked.choice.run_arguments(),
        "thread_id": place.thread_id,
        "messages": [{"role": "user", "content": asked.text}] if asked.text else [],
    }
    if "hx-request" in request.headers:
        events = _stream(request, visit, arguments, place=place, question=asked.text)
        return StreamingResponse(events, media_type="text/event-stream", headers=_EVENT_STREAM_HEADERS)
    try:
        run = await visit.api.with_options(timeout_s=RUN_WITHIN_S).runs.create(**arguments)
    except KbClientError as error:
        return describe_refusal(error)
    return RedirectResponse(f"{place.address_after(run.run_id)}#run-{run.run_id}", 303)


def refuse_in_place(request: Request, problem: ShownProblem) -> Response | None:
    """Return the part that says why a question was not asked, if a script has sent it; its form keeps the question."""
    if "hx-request" not in request.headers:
        return None
    return HTMLResponse(refusal_part(partial(render_part, request), problem))


def _stream(
    request: Request, visit: Visit, arguments: Mapping[str, Any], *, place: AnswerPlace, question: str
) -> AsyncIterator[str]:
    render = partial(render_part, request, title=question, **place.values())
    progress = RunProgress(visit.session.organization_id, question)
    return stream_turn(visit.api, progress, arguments=arguments, render=render, address_of=place.address_after)


def _text(form: FormData, name: str) -> str:
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""
