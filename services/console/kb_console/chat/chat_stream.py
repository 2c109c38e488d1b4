"""A question while it is answered, as server-sent events with parts of the page.

Parts are not more frequent than people can read. They have no attributes of htmx, whose nonce would be that of another
page: what is in them are links and forms.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from kb_client import AsyncClient
from kb_client.errors import KbClientError
from kb_console.chat.turns import ChatTurn, RunProgress
from kb_console.problems import ShownProblem, describe_problem

RUN_WITHIN_S: Final = 300.0
"""Longest wait for the next event of a run, and for a whole run without events."""
_PART_EVERY_S: Final = 0.15
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_SHOWN_AT_ONCE: Final = frozenset({"tool.called", "tool.returned", "run.finished"})

RenderPart = Callable[..., str]


async def stream_turn(
    api: AsyncClient,
    progress: RunProgress,
    *,
    arguments: Mapping[str, Any],
    render: RenderPart,
    address_of: Callable[[str], str],
) -> AsyncIterator[str]:
    """Run, and yield the question with what is known of its answer, again and again.

    Args:
        api: of the reader.
        progress: of the run, which begins here.
        arguments: of the run.
        render: returns the markup of a template of parts.
        address_of: returns the address of the answer, which the browser shows from the beginning of the run.
    """
    clock = asyncio.get_running_loop().time
    shown_at = 0.0
    try:
        async with api.with_options(timeout_s=RUN_WITHIN_S).runs.stream(**arguments) as events:
            async for event in events:
                progress.apply(event)
                if event.event == "run.started":
                    yield encode_message(address_of(progress.run_id), name="asked")
                    yield encode_message(render("_turn_begins.html", turn=progress.turn()))
                elif event.event in _SHOWN_AT_ONCE:
                    yield _changed(render, progress.turn())
                elif event.event == "answer.delta" and clock() - shown_at >= _PART_EVERY_S:
                    yield _changed(render, progress.turn())
                    shown_at = clock()
    except KbClientError as error:
        problem = describe_problem(error)
        if progress.run_id:
            yield _changed(render, progress.broken_turn(problem.detail))
        else:
            yield encode_message(refusal_part(render, problem))


def refusal_part(render: RenderPart, problem: ShownProblem) -> str:
    """Return the part that says why a question was not asked; the form keeps it."""
    return render("_refusal.html", problem=problem)


def encode_message(data: str, *, name: str | None = None) -> str:
    """Return a server-sent event."""
    lines = [] if name is None else [f"event: {name}\n"]
    return "".join([*lines, *(f"data: {line}\n" for line in _LINE_END.split(data)), "\n"])


def _changed(render: RenderPart, turn: ChatTurn) -> str:
    return encode_message(render("_turn_changes.html", turn=turn))
