"""What is told of a run while it goes on, as server-sent events."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

EventName: TypeAlias = Literal[
    "run.started", "tool.called", "tool.returned", "answer.delta", "citation", "run.finished"
]
Tell: TypeAlias = Callable[[EventName, Mapping[str, Any]], Awaitable[None]]


async def tell_nobody(_name: EventName, _data: Mapping[str, Any]) -> None:
    """For a run whose caller waits for its end."""


def encoded(name: EventName, data: Mapping[str, Any]) -> str:
    """One event on the wire."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, default=str)}\n\n"
