"""Conversations with their turns, as the chat shows them, and the trial of an agent beside its form."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kb_console.chat.chat_choice import ChatChoice
from kb_console.chat.turns import ChatTurn, to_turn
from kb_console.dependencies import Visit
from kb_console.paging import ListPage

TURNS: Final = 6
_LONGEST_TITLE: Final = 80


@dataclass(frozen=True, slots=True)
class ShownThread:
    """A conversation with a page of its turns, oldest first."""

    thread_id: str
    title: str
    turns: Sequence[ChatTurn]
    turn_count: int
    last_choice: ChatChoice | None


async def begin_thread(visit: Visit, question: str) -> str:
    """Begin a conversation that is named after its first question, and return its id."""
    title = " ".join(question.split())[:_LONGEST_TITLE]
    return (await visit.api.threads.create(title=title)).thread_id


async def read_thread(visit: Visit, thread_id: str | None, paging: ListPage) -> ShownThread | None:
    """Return a conversation; None without an id."""
    if not thread_id:
        return None
    skip = (paging.page - 1) * TURNS
    found = await visit.api.threads.get(thread_id, with_tool_calls=True, skip=skip, limit=TURNS)
    return ShownThread(
        thread_id,
        found.title,
        [to_turn(run, visit.session.organization_id) for run in reversed(found.runs)],
        found.total_count,
        ChatChoice.from_run(found.runs[0]) if found.runs else None,
    )


def turns_of_thread(
    thread: ShownThread | None, paging: ListPage, address_of_page: Callable[[int | None], str]
) -> dict[str, Any]:
    """Return what the turns of a conversation are rendered with.

    Args:
        thread: the conversation; None: it has not begun.
        paging: page of the turns.
        address_of_page: returns the address of the conversation with a page of its turns; None is the newest one.
    """
    return turns_values([] if thread is None else thread.turns, paging, address_of_page) | {
        "thread": thread,
        "thread_id": None if thread is None else thread.thread_id,
        "has_earlier": thread is not None and paging.page * TURNS < thread.turn_count,
    }


def turns_values(
    turns: Sequence[ChatTurn], paging: ListPage, address_of_page: Callable[[int | None], str]
) -> dict[str, Any]:
    """Return what turns are rendered with."""
    return {
        "turns": turns,
        "paging": paging,
        "has_earlier": False,
        "address_of_page": lambda page: address_of_page(page if page > 1 else None),
        "address_of_turn": lambda _: address_of_page(None),
        "changes_by_itself": any(turn.is_running for turn in turns),
    }
