import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def all_of(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do all at the same time and return what they return, in order; raise the first failure when all have ended.

    Unlike a task group, which hides the error in a group, and unlike `gather`, which leaves the others running.
    """
    works = [*works]
    if len(works) == 1:
        return [await works[0]]
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]
