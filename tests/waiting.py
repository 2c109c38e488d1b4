"""Waiting for what nobody tells, with one deadline that leaves room for a machine that has much else to do."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

DEADLINE_S = 60.0
POLL_S = 0.02

Condition = Callable[[], Awaitable[bool]] | Callable[[], bool]


async def until(condition: Condition, *, what: str = "", within_s: float = DEADLINE_S, every_s: float = POLL_S) -> None:
    """Ask until it is so.

    Args:
        condition: asked again and again, so it should cost little.
        what: is waited for, where the name of the condition does not say it.
        within_s: how long at most.
        every_s: pause between two questions.

    Raises:
        TimeoutError: it was not so in time; names what was waited for.
    """
    try:
        async with asyncio.timeout(within_s) as deadline:
            while not await _holds(condition):  # noqa: ASYNC110  # what is waited for tells nobody
                await asyncio.sleep(every_s)
    except TimeoutError:
        if not deadline.expired():
            raise
        raise TimeoutError(f"not within {within_s:g} s: {what or _described(condition)}") from None


async def _holds(condition: Condition) -> bool:
    answer = condition()
    return await answer if inspect.isawaitable(answer) else answer


def _described(condition: Condition) -> str:
    name = getattr(condition, "__qualname__", repr(condition))
    code = getattr(condition, "__code__", None)
    return name if code is None else f"{name} in line {code.co_firstlineno}"
