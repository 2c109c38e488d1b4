"""Artificial delays, which end when the client disconnects."""

import asyncio
from collections.abc import Awaitable, Callable

from kb_local.model_server.openai_api import ClientDisconnected

LOOK_EVERY_S = 0.05


async def wait(
    duration_s: float, *, is_disconnected: Callable[[], Awaitable[bool]], is_released: Callable[[], bool]
) -> None:
    """Sleep until the time is over or `is_released`; raises ClientDisconnected soon after the caller has gone."""
    clock = asyncio.get_running_loop().time
    until = clock() + duration_s
    while (remaining_s := until - clock()) > 0 and not is_released():
        if await is_disconnected():
            raise ClientDisconnected
        await asyncio.sleep(min(remaining_s, LOOK_EVERY_S))
