"""Calls at random times that don't depend on how fast the answers come."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from time import monotonic


async def call_at_random(
    rate: float, action: Callable[[float], Awaitable[None]], *, stop: asyncio.Event, dice: random.Random
) -> None:
    """Start `action` about `rate` times a second until `stop` is set (Poisson arrivals); wait for all that was started.

    Args:
        rate: calls in a second, on average.
        action: gets the time (`monotonic`) at which it was due, from which callers count their latency.
        stop: ends the arrivals.
        dice: makes the pauses.
    """
    due = monotonic()
    async with asyncio.TaskGroup() as calls:
        while True:
            due += dice.expovariate(rate)
            if await _is_set_before(stop, due):
                return
            calls.create_task(_call(action, due))


async def _call(action: Callable[[float], Awaitable[None]], due: float) -> None:
    await action(due)


async def _is_set_before(stop: asyncio.Event, due: float) -> bool:
    try:
        async with asyncio.timeout(max(0.0, due - monotonic())):
            await stop.wait()
    except TimeoutError:
        return False
    return True
