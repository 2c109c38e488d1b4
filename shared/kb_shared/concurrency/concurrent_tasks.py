"""Runs coroutines concurrently and returns their results in order.

A task group would raise an exception group, `gather` would leave the other tasks running after a failure.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def run_all(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all concurrently and return their results; raise the first failure after all have ended."""
    coroutines = [*coroutines]
    if len(coroutines) == 1:
        return [await coroutines[0]]
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


async def run_all_or_cancel(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all concurrently and return their results.

    When one fails or the caller is cancelled, the others are cancelled, and have ended when the failure is raised.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
