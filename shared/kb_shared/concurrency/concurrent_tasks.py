"""Runs coroutines, or tasks, concurrently and returns their results in order.

A task group would raise an exception group, `gather` would leave the other tasks running after a failure.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
First = TypeVar("First")
Second = TypeVar("Second")
Third = TypeVar("Third")


async def run_all(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """Run all concurrently and return their results; raise the first failure after all have ended."""
    awaitables = [*awaitables]
    if len(awaitables) == 1:
        return [await awaitables[0]]
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


async def run_all_or_cancel(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """Run all concurrently and return their results.

    When one fails or the caller is cancelled, the others are cancelled, and have ended when the failure is raised.
    """
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def run_three_or_cancel(
    first: Awaitable[First], second: Awaitable[Second], third: Awaitable[Third]
) -> tuple[First, Second, Third]:
    """Run three that return different types, as `run_all_or_cancel` does."""
    awaitables: tuple[Awaitable[Any], ...] = (first, second, third)
    one, two, three = await run_all_or_cancel(awaitables)
    return one, two, three


async def run_two_or_cancel(first: Awaitable[First], second: Awaitable[Second]) -> tuple[First, Second]:
    """Run two that return different types, as `run_all_or_cancel` does."""
    awaitables: tuple[Awaitable[Any], ...] = (first, second)
    one, two = await run_all_or_cancel(awaitables)
    return one, two
