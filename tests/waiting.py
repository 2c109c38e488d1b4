"""Wait for conditions that no event announces; the deadline moves with progress, because a busy machine is slow."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Hashable

DEADLINE_S = 120.0
BRAKE_S = 30.0
"""Time limit of what takes milliseconds, or for ever if the code is wrong."""
_SHORTEST_POLL_S = 0.02
_LONGEST_POLL_S = 0.1
_POLLS_OF_ELAPSED = 0.1
"""Ratio of a pause to the time that has passed: questions cost CPU that others need to get on."""

Condition = Callable[[], Awaitable[bool]] | Callable[[], bool]


async def until(
    condition: Condition,
    *,
    what: str = "",
    within_s: float = DEADLINE_S,
    every_s: float | None = None,
    progress: Callable[[], Hashable] | None = None,
) -> None:
    """Ask until it is so. The hard limit is the one that pytest has for a test.

    Args:
        condition: asked again and again, so it should cost little.
        what: is waited for, where the name of the condition does not say it.
        within_s: how long at most, since it began or since the last progress.
        every_s: pause between two questions; None: 20 ms at first, up to 100 ms later.
        progress: asked after the condition; an answer that was not given before is progress. By default there is none.

    Raises:
        TimeoutError: it was not so in time; names what was waited for.
    """
    loop = asyncio.get_running_loop()
    began, seen = loop.time(), set[Hashable]()
    try:
        async with asyncio.timeout(within_s) as deadline:
            while not await _holds(condition):
                if progress is not None and (how_far := progress()) not in seen:
                    seen.add(how_far)
                    deadline.reschedule(loop.time() + within_s)
                await asyncio.sleep(_pause_s(loop.time() - began) if every_s is None else every_s)
    except TimeoutError:
        if not deadline.expired():
            raise
        so_far = "" if progress is None else f", and no progress since {progress()!r}"
        raise TimeoutError(f"not within {within_s:g} s: {what or _described(condition)}{so_far}") from None


def _pause_s(elapsed_s: float) -> float:
    return min(max(_POLLS_OF_ELAPSED * elapsed_s, _SHORTEST_POLL_S), _LONGEST_POLL_S)


async def _holds(condition: Condition) -> bool:
    answer = condition()
    return await answer if inspect.isawaitable(answer) else answer


def _described(condition: Condition) -> str:
    name = getattr(condition, "__qualname__", repr(condition))
    code = getattr(condition, "__code__", None)
    return name if code is None else f"{name} in line {code.co_firstlineno}"
