"""Server-sent events that report the progress of a run."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from kb_contracts.api.run_events import EventName

SendEvent: TypeAlias = Callable[[EventName, Mapping[str, Any]], Awaitable[None]]


async def discard_event(_name: EventName, _data: Mapping[str, Any]) -> None:
    """Send an event nowhere, for a run whose caller gets only the result."""


def encode_event(name: EventName, data: Mapping[str, Any]) -> str:
    """Encode one event as it is sent over HTTP."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, default=str)}\n\n"
