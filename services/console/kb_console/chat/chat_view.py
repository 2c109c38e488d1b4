"""A conversation as a page of the chat shows it, with the choice of who answers the next question."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fastapi import Depends, Query

from kb_console.chat.chat_choice import ChatChoice, choice_of_address
from kb_console.chat.chat_options import ChatOptions, list_chosen, read_names, read_options
from kb_console.chat.conversations import ShownThread, read_thread
from kb_console.dependencies import Visit
from kb_console.paging import ListPage, Paging
from kb_shared.concurrency.concurrent_tasks import run_two_or_cancel

AddressChoice: TypeAlias = Annotated[ChatChoice | None, Depends(choice_of_address)]


@dataclass(frozen=True, slots=True)
class ChatView:
    """The parts of the chat that an address, or a form, asks to see."""

    paging: ListPage
    older: int = 0
    """Number of pages of conversations that are newer than those that are listed."""
    choice: ChatChoice | None = None
    """Choice for the next question; None: that of the last one."""
    choose: bool = False
    """True to show the choices unfolded, for browsers that can't ask for them later."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation with the choice for its next question."""

    thread: ShownThread | None
    """None: it has not begun."""
    choice: ChatChoice
    chosen: list[str]
    """Names of what is chosen."""
    document_name: str
    """Name of the document that is chosen, or empty."""
    options: ChatOptions | None
    """Choices; None: the page asks for them when somebody unfolds them."""


async def view_of_address(
    *,
    choice: AddressChoice,
    paging: Paging,
    older: Annotated[int, Query(ge=0, le=5_000)] = 0,
    choose: bool = False,
) -> ChatView:
    return ChatView(paging, older, choice, choose)


View: TypeAlias = Annotated[ChatView, Depends(view_of_address)]


async def read_conversation(visit: Visit, thread_id: str | None, view: ChatView) -> Conversation:
    """Return a conversation, with the choices only where they are shown: they are those of the whole organization."""
    thread = await read_thread(visit, thread_id, view.paging)
    choice = view.choice or (None if thread is None else thread.last_choice) or ChatChoice()
    names, options = await run_two_or_cancel(read_names(visit, choice), _read_options(visit, view))
    return Conversation(thread, choice, list_chosen(choice, names), names.get(choice.document_id, ""), options)


async def _read_options(visit: Visit, view: ChatView) -> ChatOptions | None:
    return await read_options(visit) if view.choose else None
