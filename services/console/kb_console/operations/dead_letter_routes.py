"""Dead letters and messages that Kafka refused: what could not be handled. Their content is never shown."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kb_console.addresses import OF_ORGANIZATION
from kb_console.dependencies import Visit, Visitor
from kb_console.operations.operations_routes import SECTION
from kb_console.pages import render_page
from kb_console.paging import ROWS, Paging
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

DEAD_LETTERS: Final = "dead-letters"
_UNSENDABLE: Final = "unsendable-messages"
_LONGEST_WORD: Final = 128
_MOST_SELECTED: Final = 100

router = APIRouter(prefix=f"{OF_ORGANIZATION}/{SECTION}")

LetterAction = Literal["redrive", "discard"]
FilterWord = Annotated[str, Query(max_length=_LONGEST_WORD)]
ShownLetters = Literal["open", "closed", "all"]
_IS_OPEN: Final[dict[str, bool | None]] = {"open": True, "closed": False, "all": None}


@dataclass(frozen=True, slots=True)
class LetterSelection:
    """Open dead letters that something is to be done with: the named ones, or all that match."""

    dead_letter_ids: list[str]
    topic: str = ""
    reason: str = ""

    def to_arguments(self) -> dict[str, Any]:
        if self.dead_letter_ids:
            return {"dead_letter_ids": self.dead_letter_ids}
        return {"topic": self.topic or None, "reason": self.reason or None}


@router.get("/dead-letters")
async def list_letters(
    request: Request,
    visit: Visitor,
    *,
    paging: Paging,
    topic: FilterWord = "",
    reason: FilterWord = "",
    show: ShownLetters = "open",
    done: Annotated[str, Query(max_length=40)] = "",
    count: Annotated[int, Query(ge=0)] = 0,
    too_large: Annotated[int, Query(ge=0)] = 0,
    unreadable: Annotated[int, Query(ge=0)] = 0,
    more: bool = False,
) -> HTMLResponse:
    found, counts = await run_two_or_cancel(
        visit.api.dead_letters.list(
            topic=topic or None, reason=reason or None, is_open=_IS_OPEN[show], skip=paging.skip, limit=ROWS
        ),
        visit.api.dead_letters.count(),
    )
    return render_page(
        request,
        "dead_letters.html",
        part="_dead_letters.html",
        found=found,
        counts=counts,
        paging=paging,
        topic=topic,
        reason=reason,
        show=show,
        shown=[("open", "open"), ("closed", "redriven or discarded"), ("all", "all")],
        is_filtered=bool(topic or reason or show != "open"),
        done=done,
        count=count,
        too_large=too_large,
        unreadable=unreadable,
        more=more,
        address_of_page=lambda page: visit.address(
            SECTION, DEAD_LETTERS, topic=topic, reason=reason, show=show, page=page
        ),
    )


@router.get("/dead-letters/confirm/{action}")
async def confirm(
    request: Request,
    visit: Visitor,
    action: LetterAction,
    *,
    selected: Annotated[list[str], Query(alias="id", default_factory=list, max_length=_MOST_SELECTED)],
    topic: FilterWord = "",
    reason: FilterWord = "",
    only_selected: bool = False,
) -> Response:
    if only_selected and not selected:
        address = visit.address(SECTION, DEAD_LETTERS, topic=topic, reason=reason, done="none_selected")
        return RedirectResponse(address, 303)
    ids = selected if only_selected else []
    selection = LetterSelection(ids, topic, reason)
    return render_page(
        request,
        "confirm_dead_letters.html",
        action=action,
        selection=selection,
        matching=await _count(visit, selection),
        address_of_list=visit.address(SECTION, DEAD_LETTERS, topic=topic, reason=reason),
    )


async def _count(visit: Visit, selection: LetterSelection) -> int:
    if selection.dead_letter_ids:
        return len(selection.dead_letter_ids)
    matching = await visit.api.dead_letters.list(
        topic=selection.topic or None, reason=selection.reason or None, is_open=True, limit=1
    )
    return matching.total_count


@router.post("/dead-letters/{action}")
async def act_on_many(
    visit: Visitor,
    action: LetterAction,
    *,
    selected: Annotated[list[str], Form(alias="id", default_factory=list, max_length=_MOST_SELECTED)],
    topic: Annotated[str, Form(max_length=_LONGEST_WORD)] = "",
    reason: Annotated[str, Form(max_length=_LONGEST_WORD)] = "",
) -> Response:
    outcome = await _act_on_letters(visit, action, LetterSelection(selected, topic, reason))
    return RedirectResponse(visit.address(SECTION, DEAD_LETTERS, topic=topic, reason=reason, **outcome), 303)


async def _act_on_letters(visit: Visit, action: LetterAction, selection: LetterSelection) -> dict[str, object]:
    """Redrive or discard open letters, and return what the list says of it."""
    if action == "discard":
        discarded = await visit.api.dead_letters.discard_many(**selection.to_arguments())
        more = discarded.are_more_left
        return {"done": "discarded", "count": discarded.discarded_count, "more": "true" if more else None}
    sent = await visit.api.dead_letters.redrive_many(**selection.to_arguments())
    return {
        "done": "redriven",
        "count": sent.redriven_count,
        "too_large": sent.too_large_count or None,
        "unreadable": sent.unreadable_count or None,
        "more": "true" if sent.are_more_left else None,
    }


@router.get("/dead-letters/{dead_letter_id}")
async def show_letter(
    request: Request, visit: Visitor, dead_letter_id: str, done: Annotated[str, Query(max_length=40)] = ""
) -> HTMLResponse:
    letter = await visit.api.dead_letters.get(dead_letter_id)
    return render_page(request, "dead_letter.html", letter=letter, done=done)


@router.post("/dead-letters/{dead_letter_id}/redrive")
async def redrive(visit: Visitor, dead_letter_id: str) -> Response:
    await visit.api.dead_letters.redrive(dead_letter_id)
    return RedirectResponse(visit.address(SECTION, DEAD_LETTERS, dead_letter_id, done="redriven"), 303)


@router.post("/dead-letters/{dead_letter_id}/discard")
async def discard(visit: Visitor, dead_letter_id: str) -> Response:
    await visit.api.dead_letters.discard(dead_letter_id)
    return RedirectResponse(visit.address(SECTION, DEAD_LETTERS, dead_letter_id, done="discarded"), 303)


@router.get("/unsendable-messages")
async def list_unsendable(
    request: Request,
    visit: Visitor,
    *,
    paging: Paging,
    topic: FilterWord = "",
    reason: FilterWord = "",
    done: Annotated[str, Query(max_length=40)] = "",
) -> HTMLResponse:
    found = await visit.api.unsendable_messages.list(
        topic=topic or None, reason=reason or None, skip=paging.skip, limit=ROWS
    )
    return render_page(
        request,
        "unsendable_messages.html",
        part="_unsendable_messages.html",
        found=found,
        paging=paging,
        topic=topic,
        reason=reason,
        reasons=[("", "any"), ("too-large", "too large"), ("invalid-record", "not a valid record")],
        done=done,
        address_of_page=lambda page: visit.address(SECTION, _UNSENDABLE, topic=topic, reason=reason, page=page),
    )


@router.post("/unsendable-messages/{message_id}/redrive")
async def redrive_unsendable(visit: Visitor, message_id: str) -> Response:
    await visit.api.unsendable_messages.redrive(message_id)
    return RedirectResponse(visit.address(SECTION, _UNSENDABLE, done="redriven"), 303)
